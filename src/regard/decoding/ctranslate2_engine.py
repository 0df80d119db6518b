"""Searches that run in CTranslate2; what comes back is what our own searches would say.

CTranslate2 has one length limit for a whole batch and does not end a translation that reaches it;
it leaves a forced beginning out of the score; and it shares the probability of marks that are
forbidden out among the other words. So it searches freely first, but for the least length, which
our searches treat as it does. A translation that is too long, unended or has a mark in it is rare:
it is searched again under our rules, as every translation with a forced beginning is, and
CTranslate2 is asked for the log-probabilities of what was found.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice, repeat
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import torch

from regard.decoding.config import SearchConfig
from regard.decoding.engine import (
    SENTENCES,
    Found,
    Hypothesis,
    Job,
    batches,
    best_first,
    fewer_with_beams,
    finished,
)
from regard.errors import ModelError
from regard.exchange.ctranslate2_files import VMAP, checked_config
from regard.text.special import SPECIAL
from regard.text.tokenizer import Tokenizers

# CTranslate2 always counts ends. With so many, it finds what no beam could beat, almost always.
_SURE = 1.5
_MARKS = frozenset([SPECIAL.pad, SPECIAL.unknown, SPECIAL.start])


class Task(NamedTuple):
    """A job as CTranslate2 gets it."""

    number: int
    source: list[str]
    begin: list[str]
    limit: int  # tokens, the end mark included


Started = tuple[Task, Any]  # a task that is being searched, and the promise of a result
Written = tuple[Task, list[int]]  # what a task led to, without EOS and without a score


class CTranslate2Engine:
    """One model in CTranslate2, which works on as many batches at once as PyTorch has threads."""

    def __init__(self, folder: Path, tokenizers: Tokenizers, compute: str = "default") -> None:
        import ctranslate2

        self._threads = torch.get_num_threads()
        self.max_length = checked_config(folder, tokenizers).max_length
        try:
            self._translator = ctranslate2.Translator(
                str(folder),
                compute_type=compute,
                inter_threads=self._threads,
                intra_threads=1,
                max_queued_batches=-1,
            )
        except (RuntimeError, ValueError, OSError, MemoryError) as error:
            raise ModelError(
                f"CTranslate2 cannot read {folder}: {error}. Export it again."
            ) from None
        source, target = tokenizers.source, tokenizers.target
        self._source_pieces = source.pieces(range(source.vocab_size))
        self._target_pieces = target.pieces(range(target.vocab_size))
        self._target_ids = {piece: i for i, piece in enumerate(self._target_pieces)}
        self._use_vmap = (folder / VMAP).is_file()

    def __str__(self) -> str:
        return f"CTranslate2, {self.precision}"

    @property
    def precision(self) -> str:
        """What products are made of."""
        return str(self._translator.compute_type).removesuffix("_float32")

    def search(
        self, jobs: Iterable[Job], config: SearchConfig, batch_size: int | None
    ) -> Iterator[Found]:
        """`top_beams` hypotheses for each job; those that need a second search come last."""
        assert not config.sample, "our own engine draws, with a generator for each sentence"
        size = self._batch_size(config) if batch_size is None else batch_size
        tasks = (self._task(number, job, config) for number, job in enumerate(jobs))
        ahead = 8 * self._threads * size  # tasks that are begun before the first is waited for
        running: deque[Started] = deque()
        second: list[Started] = []
        cut: list[Written] = []
        some = list(islice(tasks, max(size, 1)))  # the first batch at once
        while some or running:
            bound = [task for task in some if task.begin]
            free = [task for task in some if not task.begin]
            running.extend(self._started(free, config, size))
            while len(running) > (ahead if some else 0):
                task, promise = running.popleft()
                result = promise.result()
                every = [list(map(self._target_ids.__getitem__, p)) for p in result.hypotheses]
                if all(_keeps_rules(ids, task.limit) for ids in every):
                    scored = zip(every, result.scores or [math.nan], strict=True)
                    yield Found(
                        task.number,
                        [
                            Hypothesis(ids[:-1], score * len(ids) ** config.length_penalty, score)
                            for ids, score in scored
                        ],
                    )
                elif config.beam_size == 1 and _MARKS.isdisjoint(every[0]):
                    cut.append((task, every[0][: task.limit - 1]))  # as far as ours would go
                else:
                    bound.append(task)
            second += self._started_by_our_rules(bound, config, size)
            some = list(islice(tasks, 4 * size))  # so many that like lengths meet
        yield from self._scored([*cut, *self._unended(second)], config)

    def _batch_size(self, config: SearchConfig) -> int:
        """What was quickest: half of it with beams, and half of that in int8."""
        size = SENTENCES if config.beam_size == 1 else SENTENCES // 2
        return fewer_with_beams(size // 2 if self.precision == "int8" else size, config)

    def _task(self, number: int, job: Job, config: SearchConfig) -> Task:
        limit = config.limit(len(job.source) + 1, self.max_length)
        return Task(
            number,
            list(map(self._source_pieces.__getitem__, job.source)),
            list(map(self._target_pieces.__getitem__, job.begin)),
            max(limit, len(job.begin) + 1),  # a forced beginning may be written out and ended
        )

    def _started(
        self,
        tasks: Sequence[Task],
        config: SearchConfig,
        batch_size: int,
        *,
        our_rules: bool = False,
    ) -> Iterator[Started]:
        """Begin to search: freely, or with limits and beginnings, and without marks."""
        for batch in batches(tasks, lambda task: len(task.source), batch_size):
            longest = max(1, *(task.limit - 1 for task in batch))
            options: dict[str, Any] = {"num_hypotheses": config.top_beams}
            if our_rules:
                # Without a length penalty, it is done when it has as many as it is asked for.
                exact = config.patience > 0 and config.length_penalty == 0
                options = {
                    "num_hypotheses": config.top_beams if exact else config.beam_size,
                    "target_prefix": [task.begin for task in batch],
                    "suppress_sequences": [[self._target_pieces[mark]] for mark in _MARKS],
                }
            promises = self._translator.translate_batch(
                [task.source for task in batch],
                asynchronous=True,
                beam_size=config.beam_size,
                patience=config.patience or _SURE,
                length_penalty=config.length_penalty,
                max_decoding_length=longest,
                min_decoding_length=min(config.minimum, longest),
                max_input_length=0,  # nothing is cut off in silence
                return_scores=_wants_scores(config),
                return_end_token=True,
                use_vmap=self._use_vmap,
                **options,
            )
            yield from zip(batch, promises, strict=True)

    def _started_by_our_rules(
        self, tasks: Sequence[Task], config: SearchConfig, batch_size: int
    ) -> Iterator[Started]:
        """Those of one limit together, for CTranslate2 has one for all."""
        limit = attrgetter("limit")
        for _, group in groupby(sorted(tasks, key=limit), limit):
            yield from self._started(list(group), config, batch_size, our_rules=True)

    def _unended(self, started: Iterable[Started]) -> Iterator[Written]:
        """What was found by our rules: all hypotheses, to be ranked anew."""
        for task, promise in started:
            every = [map(self._target_ids.__getitem__, p) for p in promise.result().hypotheses]
            unended = [tuple(i for i in ids if i != SPECIAL.end)[: task.limit - 1] for ids in every]
            yield from ((task, list(ids)) for ids in dict.fromkeys(unended))

    def _scored(self, written: Sequence[Written], config: SearchConfig) -> Iterator[Found]:
        """The hypotheses of each task, ended, scored and ranked."""
        totals: Iterable[float] = repeat(math.nan)
        if _wants_scores(config):
            totals = self._conditional(written, config.minimum)
        found: dict[int, list[Hypothesis]] = {task.number: [] for task, _ in written}
        for (task, ids), total in zip(written, totals, strict=False):
            found[task.number].append(finished([*ids, SPECIAL.end], total, config.length_penalty))
        for number, hypotheses in found.items():
            yield Found(number, best_first(hypotheses)[: config.top_beams])

    def _conditional(self, written: Sequence[Written], minimum: int) -> list[float]:
        """Log-probabilities given that EOS is not among the first `minimum` tokens."""
        minimum = min([minimum, *(task.limit - 1 for task, _ in written)])
        beginnings = {
            (task.number, *ids[:place]): (task, ids[:place])
            for task, ids in written
            for place in range(minimum)
        }
        wanted = [*written, *beginnings.values()]
        results = self._translator.score_batch(
            [task.source for task, _ in wanted],
            [list(map(self._target_pieces.__getitem__, ids)) for _, ids in wanted],
            max_batch_size=min(SENTENCES, -(-len(wanted) // self._threads) or 1),
            max_input_length=0,
        )
        every = [result.log_probs for result in results]  # of each token and of EOS
        early = dict(zip(beginnings, (row[-1] for row in every[len(written) :]), strict=True))
        return [
            sum(row) - sum(_log_of_rest(early[task.number, *ids[:n]]) for n in range(minimum))
            for row, (task, ids) in zip(every, written, strict=False)
        ]


def _wants_scores(config: SearchConfig) -> bool:
    """They cost greedy search a softmax over the vocabulary; beam search lives by them."""
    return config.scores or config.beam_size > 1


def _log_of_rest(log_prob: float) -> float:
    """log(1 - p), as exactly as a p in float32 allows."""
    return math.log(max(-math.expm1(log_prob), 2**-24))


def _keeps_rules(ids: Sequence[int], limit: int) -> bool:
    """Whether a translation is ended, short enough, and has no other marks."""
    ended = len(ids) > 0 and ids[-1] == SPECIAL.end
    return ended and len(ids) <= limit and _MARKS.isdisjoint(ids)
