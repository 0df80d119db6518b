"""The CTranslate2 backend, with the results of the PyTorch searches.

CTranslate2 has one length limit for a whole batch, and returns hypotheses that reach it without
EOS; it excludes a forced prefix from the score; and it redistributes the probability of banned
tokens.

Therefore the first search is unconstrained except for the minimum length, which the PyTorch
searches treat in the same way. Hypotheses that are too long or too short, have no EOS or contain a
banned token or a repeated n-gram are rare: these segments, and all segments with a forced prefix,
are searched again with constraints, and CTranslate2 then scores the resulting hypotheses.

A repetition penalty changes the scores in both libraries. It applies to both searches, but the
scores of the second are those of the model.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, repeat
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.decoding.backend import (
    DEFAULT_BATCH_SIZE,
    BatchLimit,
    Hypothesis,
    IdPair,
    Request,
    SearchResult,
    batch_by_length,
    finished_hypothesis,
    reduce_for_beams,
    sort_by_score,
)
from regard.decoding.config import SearchConfig
from regard.decoding.runtime import CPU_WINDOW
from regard.decoding.token_patterns import contains, has_repeated_ngram
from regard.errors import ConfigError, ModelError
from regard.exchange.ctranslate2_files import VMAP, read_checked_config
from regard.machine import core_count
from regard.text.special import SPECIAL
from regard.text.tokenizer import Tokenizers

if TYPE_CHECKING:
    import torch

# CTranslate2 always stops after a number of finished hypotheses. With this patience, its result is
# almost always that of a search until no beam can win.
_DEFAULT_PATIENCE = 1.5
_BATCHES_PER_THREAD = 8  # submitted before the first result is awaited
_SECOND_SEARCH_INTERVAL = 32  # batches
_BANNED = frozenset([SPECIAL.pad, SPECIAL.unk, SPECIAL.bos])


class TokenRequest(NamedTuple):
    """A request in the format of CTranslate2."""

    number: int
    source: list[str]
    prefix: list[str]
    limit: int  # tokens, EOS included
    minimum: int = 0  # tokens before EOS


Pending = tuple[TokenRequest, Any]  # a request that is being searched, and the future of its result
Unscored = tuple[TokenRequest, list[int]]  # a request and ids of a hypothesis, without EOS


class CTranslate2Backend:
    """A model in CTranslate2, which runs as many batches in parallel as there are cores."""

    device: torch.device | None = None
    window = CPU_WINDOW

    def __init__(self, folder: Path, tokenizers: Tokenizers, compute: str = "default") -> None:
        import ctranslate2

        self._threads = core_count()
        self.max_length = read_checked_config(folder, tokenizers).max_length
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
                f"CTranslate2 cannot load {folder}: {error}. Export the model again."
            ) from None
        source, target = tokenizers.source, tokenizers.target
        self._source_tokens = source.ids_to_tokens(range(source.vocab_size))
        self._target_tokens = target.ids_to_tokens(range(target.vocab_size))
        self._target_ids = {token: i for i, token in enumerate(self._target_tokens)}
        self._use_vmap = (folder / VMAP).is_file()

    def __str__(self) -> str:
        return f"CTranslate2, {self.precision}"

    @property
    def precision(self) -> str:
        """The data type of the weights."""
        return str(self._translator.compute_type).removesuffix("_float32")

    def batch_limit(self, config: SearchConfig) -> BatchLimit:
        """In sentences: half as many for beam search, and half as many in int8."""
        size = DEFAULT_BATCH_SIZE if config.beam_size == 1 else DEFAULT_BATCH_SIZE // 2
        size = size // 2 if self.precision == "int8" else size
        return BatchLimit(reduce_for_beams(size, config))

    def search(
        self, batches: Iterable[Sequence[Request]], config: SearchConfig
    ) -> Iterator[SearchResult]:
        """`num_hypotheses` hypotheses per request; those of a second search come later."""
        assert not config.sample, "sampling is implemented by the PyTorch backend only"
        pending: deque[list[Pending]] = deque()
        second = _SecondSearch(self, config)
        numbers = itertools.count()
        for index, batch in enumerate(batches, 1):
            requests = [self._to_tokens(next(numbers), request, config) for request in batch]
            second.requests += [request for request in requests if request.prefix]
            free = [request for request in requests if not request.prefix]
            pending.append(self.submit(free, config) if free else [])
            if len(pending) > _BATCHES_PER_THREAD * self._threads:
                yield from self._results(pending.popleft(), second)
            if index % _SECOND_SEARCH_INTERVAL == 0:
                yield from second.run()
        while pending:
            yield from self._results(pending.popleft(), second)
        yield from second.run()
        yield from second.run()

    def _results(self, batch: Iterable[Pending], second: _SecondSearch) -> Iterator[SearchResult]:
        """The results of a batch that satisfy the constraints; the others are searched again."""
        length_penalty = second.config.length_penalty
        for request, future in batch:
            result = future.result()
            outputs = [*map(self.to_ids, result.hypotheses)]
            if all(_satisfies_constraints(ids, request, second.config) for ids in outputs):
                scored = zip(outputs, result.scores or [math.nan], strict=True)
                hypotheses = [
                    Hypothesis(ids[:-1], score * len(ids) ** length_penalty, score)
                    for ids, score in scored
                ]
                yield SearchResult(request.number, hypotheses)
            elif second.config.beam_size == 1 and _is_only_too_long(
                outputs[0], request, second.config
            ):
                second.truncated.append((request, outputs[0][: request.limit - 1]))
            else:
                second.requests.append(request)

    def _to_tokens(self, number: int, request: Request, config: SearchConfig) -> TokenRequest:
        if request.context.target:
            raise ConfigError(
                "CTranslate2 does not support document context of target sentences. Use --backend "
                "torch with the model folder, or --no-document-context."
            )
        length = len(request.segment) + 1
        limit = config.limit(length, self.max_length)
        return TokenRequest(
            number,
            list(map(self._source_tokens.__getitem__, request.source)),
            list(map(self._target_tokens.__getitem__, request.prefix)),
            max(limit, len(request.prefix) + 1),  # the limit never truncates a forced prefix
            config.minimum(length, limit),
        )

    def submit(
        self, batch: Sequence[TokenRequest], config: SearchConfig, *, constrained: bool = False
    ) -> list[Pending]:
        """Start a search: unconstrained, or with a limit, forced prefixes and banned tokens."""
        longest = max(1, *(request.limit - 1 for request in batch))
        shortest = config.effective_min_length
        options: dict[str, Any] = {"num_hypotheses": config.num_hypotheses}
        if constrained:
            # Without a length penalty, the search stops after `num_hypotheses` are finished.
            exact = config.patience > 0 and config.length_penalty == 0
            options = {
                "num_hypotheses": config.num_hypotheses if exact else config.beam_size,
                "target_prefix": [request.prefix for request in batch],
                "no_repeat_ngram_size": config.no_repeat_ngram_size,
                "suppress_sequences": [
                    list(map(self._target_tokens.__getitem__, ids))
                    for ids in (*([token] for token in _BANNED), *config.banned_sequences)
                ],
            }
            shortest = max(shortest, *(request.minimum for request in batch))
        futures = self._translator.translate_batch(
            [request.source for request in batch],
            asynchronous=True,
            beam_size=config.beam_size,
            patience=config.patience or _DEFAULT_PATIENCE,
            length_penalty=config.length_penalty,
            repetition_penalty=config.repetition_penalty,
            max_decoding_length=longest,
            min_decoding_length=min(shortest, longest),
            max_input_length=0,  # never truncate silently
            return_scores=_needs_scores(config),
            return_end_token=True,
            # CTranslate2 would drop tokens that are not in the shortlist from banned sequences.
            use_vmap=self._use_vmap and not (constrained and config.banned_sequences),
            **options,
        )
        return [*zip(batch, futures, strict=True)]

    def to_ids(self, tokens: Sequence[str]) -> list[int]:
        """The ids of target tokens."""
        return [*map(self._target_ids.__getitem__, tokens)]

    def log_probs(self, unscored: Sequence[Unscored], min_length: int) -> list[float]:
        """Log-probs, conditioned on EOS not being among the first `min_length` tokens."""
        min_length = min([min_length, *(request.limit - 1 for request, _ in unscored)])
        prefixes = {
            (request.number, *ids[:length]): (request, ids[:length])
            for request, ids in unscored
            for length in range(min_length)
        }
        pairs = [*unscored, *prefixes.values()]
        rows = self._score([request.source for request, _ in pairs], [ids for _, ids in pairs])
        eos = dict(zip(prefixes, (row[-1] for row in rows[len(unscored) :]), strict=True))
        return [
            sum(row) - sum(_log1mexp(eos[request.number, *ids[:n]]) for n in range(min_length))
            for row, (request, ids) in zip(rows, unscored, strict=False)
        ]

    def token_log_probs(self, pairs: Sequence[IdPair]) -> list[list[float]]:
        """The log-prob of each target token and of EOS, by forced decoding."""
        sources = [list(map(self._source_tokens.__getitem__, source)) for source, _ in pairs]
        return self._score(sources, [target for _, target in pairs])

    def _score(
        self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """The log-prob of each token of the targets and of EOS."""
        results = self._translator.score_batch(
            sources,
            [list(map(self._target_tokens.__getitem__, ids)) for ids in targets],
            max_batch_size=min(DEFAULT_BATCH_SIZE, -(-len(sources) // self._threads) or 1),
            max_input_length=0,
        )
        return [result.log_probs for result in results]


class _SecondSearch:
    """Collects requests whose result violates the constraints, and searches them again together.

    `run` starts the searches that were requested since the last call, and returns the results of
    those started by the last call, so that CTranslate2 always has work.
    """

    def __init__(self, backend: CTranslate2Backend, config: SearchConfig) -> None:
        self.config = config
        self.requests: list[TokenRequest] = []  # to be searched with constraints
        self.truncated: list[Unscored] = []  # cut at the limit, to be scored
        self._backend = backend
        self._pending: list[Pending] = []

    def run(self) -> Iterator[SearchResult]:
        """Start new searches; yield the results of earlier ones."""
        started, self._pending = self._pending, [*self._submit(self.requests)]
        unscored = [*self.truncated, *self._unscored(started)]
        self.requests, self.truncated = [], []
        return self._score(unscored) if unscored else iter(())

    def _submit(self, requests: Sequence[TokenRequest]) -> Iterator[Pending]:
        """Start constrained searches, with the same length limits in each batch."""
        limits, size = attrgetter("limit", "minimum"), self._backend.batch_limit(self.config)
        for _, group in groupby(sorted(requests, key=limits), limits):
            for batch in batch_by_length([*group], lambda request: len(request.source), size):
                yield from self._backend.submit(batch, self.config, constrained=True)

    def _unscored(self, pending: Iterable[Pending]) -> Iterator[Unscored]:
        """The distinct hypotheses of constrained searches, to be scored and ranked."""
        for request, future in pending:
            outputs = map(self._backend.to_ids, future.result().hypotheses)
            limit = request.limit - 1
            without_eos = [tuple(i for i in ids if i != SPECIAL.eos)[:limit] for ids in outputs]
            yield from ((request, list(ids)) for ids in dict.fromkeys(without_eos))

    def _score(self, unscored: Sequence[Unscored]) -> Iterator[SearchResult]:
        """The hypotheses of each request with EOS, scored and ranked."""
        totals: Iterable[float] = repeat(math.nan)
        if _needs_scores(self.config):
            totals = self._backend.log_probs(unscored, self.config.effective_min_length)
        results: dict[int, list[Hypothesis]] = {request.number: [] for request, _ in unscored}
        for (request, ids), total in zip(unscored, totals, strict=False):
            hypothesis = finished_hypothesis([*ids, SPECIAL.eos], total, self.config.length_penalty)
            results[request.number].append(hypothesis)
        for number, hypotheses in results.items():
            yield SearchResult(number, sort_by_score(hypotheses)[: self.config.num_hypotheses])


def _needs_scores(config: SearchConfig) -> bool:
    """Whether scores are computed: always by beam search; greedy search is faster without."""
    return config.scores or config.beam_size > 1


def _log1mexp(log_prob: float) -> float:
    """log(1 - p), limited by the precision of a float32 p."""
    return math.log(max(-math.expm1(log_prob), 2**-24))


def _satisfies_constraints(ids: Sequence[int], request: TokenRequest, config: SearchConfig) -> bool:
    """Whether an output ends in EOS, is within the limits and has no banned token."""
    has_eos = len(ids) > 0 and ids[-1] == SPECIAL.eos
    is_within_limits = request.minimum < len(ids) <= request.limit
    return has_eos and is_within_limits and _has_nothing_banned(ids, config)


def _is_only_too_long(ids: Sequence[int], request: TokenRequest, config: SearchConfig) -> bool:
    """Whether an output satisfies the constraints after truncation to the limit."""
    return request.minimum < len(ids) and _has_nothing_banned(ids[: request.limit - 1], config)


def _has_nothing_banned(ids: Sequence[int], config: SearchConfig) -> bool:
    """Whether an output has no banned token, no banned sequence and no repeated n-gram."""
    return (
        _BANNED.isdisjoint(ids)
        and not has_repeated_ngram(ids, config.no_repeat_ngram_size)
        and not any(contains(ids, sequence) for sequence in config.banned_sequences)
    )
