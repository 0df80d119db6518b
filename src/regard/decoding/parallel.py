"""All words at once: fertilities chosen or drawn, one pass of the decoder, and a teacher's choice.

A model with CTC has one output for a sentence. One with fertilities has one for each row of
fertilities: that of the likeliest, that of the mean, or those of several drawn ones, of which a
model that writes word by word keeps the one that it finds best (noisy parallel decoding).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.attention.multihead import AttentionRecord
from regard.data.loader import with_ends
from regard.data.ragged import Batch, Lengths, Ragged
from regard.decoding.config import SearchConfig
from regard.decoding.engine import by_length
from regard.decoding.hypothesis import Hypothesis, best_first, normalized
from regard.decoding.sample import drawn, keyed_generator
from regard.decoding.score import scores
from regard.errors import ConfigError
from regard.layers.ctc import BLANK, kept
from regard.layers.embedding import Projection
from regard.models.base import Model
from regard.models.nonautoregressive import NonAutoregressive
from regard.text.special import SPECIAL

_ROWS = 16384  # places whose words are scored at once
_JUDGED = 1024  # outputs that a teacher judges at once
_DROPPED = -1  # stands where a path is not read


@torch.inference_mode()
def parallel_search(
    model: NonAutoregressive,
    source: Ragged,
    config: SearchConfig,
    *,
    teacher: Model | None = None,
) -> list[list[Hypothesis]]:
    """`top_beams` hypotheses for each source sentence, best first."""
    refuse_what_needs_steps(model, config, teacher)
    memory = model.encode(source)
    if model.fertility is None:
        found = _paths(model, source, memory, config)
    else:
        log_probs = model.fertility(memory).float().log_softmax(-1)
        chosen = limited(fertilities(log_probs, source, config), source, _limits(source, config))
        found = _outputs(model, source, memory, chosen, config)
    if teacher is None or config.candidates == 1:
        return [[hypothesis] for [hypothesis] in found]
    judged = _judged(teacher, source, found, config)
    return [several[: config.top_beams] for several in judged]


def refuse_what_needs_steps(
    model: NonAutoregressive, config: SearchConfig, teacher: Model | None
) -> None:
    """A sentence for each setting that means something only where words are written in turn."""
    if config.sample:
        raise ConfigError(
            "This model writes all words at once, and cannot draw one after another. Leave out "
            "--sample; --candidates draws several translations, of which a --teacher keeps one."
        )
    if config.min_length:
        raise ConfigError("This model decides how many words it writes. Leave out --min-length.")
    if config.candidates == 1:
        if config.top_beams > 1:
            raise ConfigError(
                "This model writes one translation for a sentence. Leave out --top-beams, or draw "
                "as many with --candidates and --teacher."
            )
        return
    if model.fertility is None:
        raise ConfigError(
            "This model has no fertilities to draw (model.lengths=ctc). Leave out --candidates."
        )
    if teacher is None:
        raise ConfigError(
            "Somebody has to choose among the candidates. Name a model that writes word by word "
            "with --teacher, or leave out --candidates."
        )


def fertilities(log_probs: Tensor, source: Ragged, config: SearchConfig) -> Tensor:
    """Rows of fertilities: the likeliest or the mean ones, then drawn ones.

    log_probs (N, classes) -> (candidates, N)
    """
    if config.fertility == "average":
        classes = torch.arange(log_probs.shape[1], device=log_probs.device)
        first = (log_probs.exp() * classes).sum(-1).round().long()
    else:
        first = log_probs.argmax(-1)
    rows = [first]
    if config.candidates > 1:
        draws = _draws(source, config.candidates - 1, config.seed).to(log_probs.device)
        rows += [drawn(log_probs.exp(), draw) for draw in draws]
    return torch.stack(rows)


def _draws(source: Ragged, rounds: int, seed: int) -> Tensor:
    """Numbers between 0 and 1, keyed by the sentence: the same in any batch. (rounds, N)"""
    sentences = source.tokens.split(source.lengths.host.tolist())
    parts = [keyed_generator(seed, 0, ids.tolist()).random((rounds, len(ids))) for ids in sentences]
    return torch.from_numpy(np.concatenate(parts, 1))


def _limits(source: Ragged, config: SearchConfig) -> Tensor:
    """How many words each sentence may get. (B,)"""
    lengths = source.lengths.host.tolist()
    limits = [config.limit(length) - 1 for length in lengths]
    return torch.tensor(limits, device=source.tokens.device)


def limited(rows: Tensor, source: Ragged, limits: Tensor) -> Tensor:
    """Fertilities that sum to no more than a sentence's limit, and to no less than one word.

    rows (candidates, N), limits (B,) -> (candidates, N)
    """
    lengths = source.lengths
    before = rows.cumsum(1) - rows
    before = before - before[:, lengths.offsets[:-1].long()][:, lengths.sentence]
    rows = rows.minimum((limits[lengths.sentence] - before).clamp(min=0))
    sums = sums_of(rows, lengths)
    silent = (sums == 0)[:, lengths.sentence] & (lengths.positions == 0)
    return rows + silent


def sums_of(rows: Tensor, lengths: Lengths) -> Tensor:
    """The sum over each sentence. (candidates, N) -> (candidates, B)"""
    return rows.new_zeros(len(rows), len(lengths)).index_add_(1, lengths.sentence, rows)


def _paths(
    model: NonAutoregressive, source: Ragged, memory: Tensor, config: SearchConfig
) -> list[list[Hypothesis]]:
    """What CTC reads on the likeliest path."""
    places = model.spread(source)
    hidden = model.decode(places, memory, source.lengths)
    tokens, gains = likeliest(hidden, model.projection, blank=True)
    tokens = tokens.masked_fill(~kept(tokens, places.lengths), _DROPPED)
    found = _hypotheses(tokens, gains, places.lengths, config)
    return [[hypothesis] for hypothesis in found]


def _outputs(
    model: NonAutoregressive, source: Ragged, memory: Tensor, rows: Tensor, config: SearchConfig
) -> list[list[Hypothesis]]:
    """What is written under each row of fertilities (candidates, N), for each sentence."""
    rounds = len(rows)
    lengths = Lengths.of(sums_of(rows, source.lengths).flatten().tolist()).to(rows.device)
    copies = source.repeated(rounds).copied(rows.flatten(), lengths)
    hidden = model.decode(copies, memory.repeat(rounds, 1), source.lengths.repeated(rounds))
    found = _hypotheses(*likeliest(hidden, model.projection), lengths, config)
    sentences = len(source.lengths)
    return [found[sentence::sentences] for sentence in range(sentences)]


@dataclass(frozen=True)
class Written:
    """What stands at each place after one pass over one sentence, whatever is read of it."""

    fertilities: list[int]  # of each source token; with CTC, how many places it has
    origins: list[int]  # the source token that each place is a copy of
    words: list[int]


@torch.inference_mode()
def written_at_once(
    model: NonAutoregressive, source: Ragged, record: AttentionRecord | None = None
) -> Written:
    """One sentence under its likeliest fertilities, for somebody to look at."""
    memory = model.encode(source, record)
    copies, config = model.spread(source), SearchConfig()
    counts = torch.full_like(source.tokens, model.config.copies)
    if model.fertility is not None:
        rows = fertilities(model.fertility(memory).float().log_softmax(-1), source, config)
        (counts,) = limited(rows, source, _limits(source, config))
        copies = source.copied(counts, Lengths.of([int(counts.sum())]).to(source.tokens.device))
    hidden = model.decode(copies, memory, source.lengths, record)
    words, _ = likeliest(hidden, model.projection, blank=model.fertility is None)
    origins = torch.arange(len(counts), device=counts.device).repeat_interleave(counts)
    return Written(counts.tolist(), origins.tolist(), words.tolist())


def likeliest(hidden: Tensor, project: Projection, *, blank: bool = False) -> tuple[Tensor, Tensor]:
    """The best word of each place and its log-probability; marks are not words. (N, D) -> (N,)"""
    marks = [SPECIAL.pad, SPECIAL.unknown, SPECIAL.end, *([] if blank else [BLANK])]
    tokens, gains = [], []
    for part in hidden.split(_ROWS):
        logits = project(part).float()
        partition = logits.logsumexp(-1)
        for mark in marks:
            logits[:, mark] = -torch.inf
        best, words = logits.max(-1)
        tokens.append(words)
        gains.append(best - partition)
    return torch.cat(tokens), torch.cat(gains)


def _hypotheses(
    tokens: Tensor, gains: Tensor, lengths: Lengths, config: SearchConfig
) -> list[Hypothesis]:
    """Rows of words as sentences; here, and once, the host waits for the device."""
    table = torch.stack([tokens.double(), gains.double()]).cpu().numpy()
    ends = np.cumsum(lengths.host.numpy())[:-1]
    found = []
    for ids, own in zip(*(np.split(row, ends) for row in table), strict=True):
        words = [int(word) for word in ids if word != _DROPPED]
        total = float(own.sum())
        score = normalized(total, len(words) + 1, config.length_penalty)
        found.append(Hypothesis(words, total, score))
    return found


def _judged(
    teacher: Model, source: Ragged, found: Sequence[Sequence[Hypothesis]], config: SearchConfig
) -> list[list[Hypothesis]]:
    """The different outputs of each sentence with the teacher's scores, the best first."""
    sources = [ids.tolist()[:-1] for ids in source.tokens.split(source.lengths.host.tolist())]
    pairs = [
        (sentence, words)
        for sentence, outputs in enumerate(found)
        for words in dict.fromkeys(tuple(output.tokens) for output in outputs)
    ]

    def of(chunk: list[tuple[int, tuple[int, ...]]]) -> list[float]:
        batch = Batch(with_ends([sources[s] for s, _ in chunk]), with_ends([w for _, w in chunk]))
        batch = batch.to(source.tokens.device)
        return scores([teacher], batch, length_penalty=config.length_penalty)

    told = by_length(pairs, lambda pair: len(pair[1]) + len(sources[pair[0]]), _JUDGED, of)
    judged: list[list[Hypothesis]] = [[] for _ in found]
    for (sentence, words), score in zip(pairs, told, strict=True):
        total = score * (len(words) + 1) ** config.length_penalty
        judged[sentence].append(Hypothesis(list(words), total, score))
    return [best_first(several) for several in judged]
