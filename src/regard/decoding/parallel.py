"""All words at once: fertilities chosen or drawn, one pass of the decoder, and a teacher's choice.

A model with fertilities has an output for each row of them: for the likeliest, for the mean ones,
or for several drawn ones. One with CTC has one, or several that it finds likeliest over all paths.
Of several, a model that writes word by word keeps what it finds best (noisy parallel decoding).

What is counted and drawn lies on the host; a device makes passes only, and is waited for once or,
with fertilities, twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.attention.multihead import AttentionRecord
from regard.data.batch import Batch
from regard.data.pairs import with_ends
from regard.data.ragged import Lengths, Ragged
from regard.decoding.config import SearchConfig
from regard.decoding.ctc_beam import Places, best_readings
from regard.decoding.engine import by_length
from regard.decoding.fertility import fertilities, limited
from regard.decoding.hypothesis import Hypothesis, best_first, normalized
from regard.decoding.passes import Passes, PlainPasses
from regard.decoding.score import token_gains
from regard.errors import ConfigError
from regard.layers.ctc import BLANK, kept
from regard.models.base import Model
from regard.models.nonautoregressive import NonAutoregressive
from regard.text.special import SPECIAL

_ROWS = 16384  # places whose words are scored at once
_JUDGED = 1024  # outputs that a teacher judges at once
_DROPPED = -1  # stands where a path is not read
_SPELLED = 8  # words of a place that a search over readings looks at


@torch.inference_mode()
def parallel_search(
    model: NonAutoregressive,
    source: Ragged,
    config: SearchConfig,
    *,
    teacher: Model | None = None,
    passes: Passes | None = None,
) -> list[list[Hypothesis]]:
    """`top_beams` hypotheses for each source sentence, best first."""
    refuse_what_needs_steps(model, config, teacher)
    source = source.to(torch.device("cpu"))
    passes = passes or PlainPasses(model.device)
    found = _candidates(model, source, config, passes)
    if teacher is not None and config.candidates > 1:
        found = _judged(teacher, source, found, config, passes)
    return [several[: config.top_beams] for several in found]


def refuse_what_needs_steps(
    model: NonAutoregressive, config: SearchConfig, teacher: Model | None
) -> None:
    """A sentence for each setting that means something only where words are written in turn."""
    if config.sample:
        raise ConfigError(
            "This model writes all words at once, and cannot draw one after another. Leave out "
            "--sample; --candidates draws several translations, of which a --teacher keeps one."
        )
    if config.min_length is not None:
        raise ConfigError("This model decides how many words it writes. Leave out --min-length.")
    if model.fertility is None and config.fertility != "argmax":
        raise ConfigError("This model has no fertilities but CTC. Leave out --fertility.")
    if config.top_beams > config.candidates:
        among = "--candidates" if model.fertility is None else "--candidates and --teacher"
        raise ConfigError(
            f"--top-beams {config.top_beams} is more than the {config.candidates} that this model "
            f"writes for a sentence. Leave it out, or have as many with {among}."
        )
    if config.candidates > 1 and model.fertility is not None and teacher is None:
        raise ConfigError(
            "Somebody has to choose among the candidates. Name a model that writes word by word "
            "with --teacher, or leave out --candidates."
        )


def _candidates(
    model: NonAutoregressive, source: Ragged, config: SearchConfig, passes: Passes
) -> list[list[Hypothesis]]:
    """The outputs for each sentence, best first where there is no teacher to say so."""
    if model.fertility is not None:
        return _under_fertilities(model, source, config, passes)
    if config.candidates > 1:
        return _readings(model, source, config, passes)
    return [[hypothesis] for hypothesis in _read(model, source, config, passes)]


def _read(
    model: NonAutoregressive, source: Ragged, config: SearchConfig, passes: Passes
) -> list[Hypothesis]:
    """What CTC reads on the likeliest path of each sentence."""

    def work(row: Ragged) -> Tensor:
        places = model.spread(row)
        hidden = model.decode(places, model.encode(row), row.lengths)
        found = likeliest(model, hidden)
        found[:, 0].masked_fill_(~kept(found[:, 0], places.lengths), _DROPPED)
        return found

    places = source.lengths.times(model.config.copies)
    return _hypotheses(passes("read", work, [source]), places, config)


def _readings(
    model: NonAutoregressive, source: Ragged, config: SearchConfig, passes: Passes
) -> list[list[Hypothesis]]:
    """What CTC finds likeliest over all paths of each sentence."""

    def work(row: Ragged) -> Tensor:
        places = model.spread(row)
        hidden = model.decode(places, model.encode(row), row.lengths)
        table = torch.cat([_chances(model, part) for part in hidden.split(_ROWS)])
        found = best_readings(_in_rows(table, places.lengths), config.candidates)
        return torch.cat([found.totals[..., None], found.lengths[..., None], found.words], -1)

    table = passes(("spell", config.candidates), work, [source])[: len(source.lengths)]
    return [
        best_first(
            Hypothesis(words, total, normalized(total, len(words) + 1, config.length_penalty))
            for total, words in map(_spelled, readings)
            if total > -torch.inf
        )
        for readings in table.tolist()
    ]


def _chances(model: NonAutoregressive, hidden: Tensor) -> Tensor:
    """Of a blank and of the best words: (N, 1 + k), and then which words these are, (N, k)."""
    probabilities = model.projection(hidden).float().softmax(-1)
    blank = probabilities[:, BLANK, None].clone()
    for mark in (SPECIAL.pad, SPECIAL.unknown, SPECIAL.end, BLANK):
        probabilities[:, mark] = 0.0
    best = probabilities.topk(min(_SPELLED, probabilities.shape[1]), dim=1)
    return torch.cat([blank, best.values, best.indices.float()], 1).double()


def _in_rows(table: Tensor, lengths: Lengths) -> Places:
    """The chances of all places, sentence by sentence; blanks fill up what is shorter."""
    rows = table.new_zeros(len(lengths) * lengths.longest, table.shape[1])
    rows[:, 0] = 1.0
    rows.index_copy_(0, lengths.sentence * lengths.longest + lengths.positions, table)
    rows = rows.view(len(lengths), lengths.longest, -1)
    blank, chances, words = rows.split([1, rows.shape[2] // 2, rows.shape[2] // 2], dim=2)
    return Places(blank[..., 0], words.long(), chances)


def _spelled(row: Sequence[float]) -> tuple[float, list[int]]:
    """A reading's log-probability and its words."""
    total, length, *words = row
    return total, [int(word) for word in words[: int(length)]]


def _under_fertilities(
    model: NonAutoregressive, source: Ragged, config: SearchConfig, passes: Passes
) -> list[list[Hypothesis]]:
    """What is written under each row of fertilities, for each sentence."""
    known = passes("encode", lambda row: _with_fertilities(model, row), [source])
    classes = model.config.max_fertility + 1
    log_probs = known[: source.lengths.total, :classes].float().cpu().log_softmax(-1)
    counts = limited(fertilities(log_probs, source, config), source, config, model.max_length)
    rounds = len(counts)
    lengths = Lengths.of(source.lengths.sums(counts).flatten().tolist())
    copies = source.repeated(rounds).copied(counts.flatten(), lengths)
    # Each copy of a sentence looks at the memory of the one that was encoded.
    places = Ragged(torch.arange(source.lengths.total), source.lengths).repeated(rounds)

    def work(places: Ragged, copies: Ragged, known: Tensor) -> Tensor:
        memory = known[:, classes:].index_select(0, places.tokens)
        return likeliest(model, model.decode(copies, memory, places.lengths))

    found = _hypotheses(passes("write", work, [places, copies], known), lengths, config)
    sentences = len(source.lengths)
    return [found[sentence::sentences] for sentence in range(sentences)]


def _with_fertilities(model: NonAutoregressive, row: Ragged) -> Tensor:
    """The logits of fertilities, and the memory after them. (N, classes + D)"""
    assert model.fertility is not None
    memory = model.encode(row)
    return torch.cat([model.fertility(memory), memory], 1)


def likeliest(model: NonAutoregressive, hidden: Tensor) -> Tensor:
    """The best word of each place, and its log-probability; marks are no words. (N, D) -> (N, 2)"""
    marks = [SPECIAL.pad, SPECIAL.unknown, SPECIAL.end]
    marks += [] if model.fertility is None else [BLANK]
    found = []
    for part in hidden.split(_ROWS):
        logits = model.projection(part).float()
        partition = logits.logsumexp(-1)
        for mark in marks:
            logits[:, mark] = -torch.inf
        best, words = logits.max(-1)
        found.append(torch.stack([words.double(), (best - partition).double()], 1))
    return torch.cat(found)


def _hypotheses(found: Tensor, lengths: Lengths, config: SearchConfig) -> list[Hypothesis]:
    """Words and log-probabilities (N, 2) as sentences."""
    table = found[: lengths.total].cpu().numpy()  # here the host waits for the device
    hypotheses = []
    for rows in np.split(table, np.cumsum(lengths.host.numpy())[:-1]):
        words = [int(word) for word in rows[:, 0] if word != _DROPPED]
        total = float(rows[:, 1].sum())
        score = normalized(total, len(words) + 1, config.length_penalty)
        hypotheses.append(Hypothesis(words, total, score))
    return hypotheses


def _judged(
    teacher: Model,
    source: Ragged,
    found: Sequence[Sequence[Hypothesis]],
    config: SearchConfig,
    passes: Passes,
) -> list[list[Hypothesis]]:
    """The different outputs of each sentence with the teacher's scores, the best first."""
    sources = [ids.tolist()[:-1] for ids in source.tokens.split(source.lengths.host.tolist())]
    pairs = [
        (sentence, words)
        for sentence, outputs in enumerate(found)
        for words in dict.fromkeys(tuple(output.tokens) for output in outputs)
    ]

    def totals(chunk: list[tuple[int, tuple[int, ...]]]) -> list[float]:
        rows = with_ends([sources[s] for s, _ in chunk]), with_ends([w for _, w in chunk])
        lengths = rows[1].lengths
        gains = passes("judge", lambda *sides: token_gains(teacher, Batch(*sides)), rows)
        own = gains[: lengths.total].double().cpu()
        sums: list[float] = lengths.sums(own).tolist()
        return sums

    told = by_length(pairs, lambda pair: len(pair[1]) + len(sources[pair[0]]), _JUDGED, totals)
    judged: list[list[Hypothesis]] = [[] for _ in found]
    for (sentence, words), total in zip(pairs, told, strict=True):
        score = normalized(total, len(words) + 1, config.length_penalty)
        judged[sentence].append(Hypothesis(list(words), total, score))
    return [best_first(several) for several in judged]


@dataclass(frozen=True)
class Written:
    """What stands at each place after one pass over one sentence, whatever is read of it."""

    fertilities: list[int]  # of each source token; with CTC, how many places it has
    origins: list[int]  # the source token that each place is a copy of
    words: list[int]
    read: list[bool]  # with CTC, not all of them are


@torch.inference_mode()
def written_at_once(
    model: NonAutoregressive, source: Ragged, record: AttentionRecord | None = None
) -> Written:
    """One sentence under its likeliest fertilities, for somebody to look at."""
    row, config = source.to(model.device), SearchConfig()
    memory = model.encode(row, record)
    counts = torch.full_like(source.tokens, model.config.copies)
    if model.fertility is not None:
        log_probs = model.fertility(memory).float().log_softmax(-1).cpu()
        (counts,) = limited(
            fertilities(log_probs, source, config), source, config, model.max_length
        )
    copies = source.copied(counts, Lengths.of([int(counts.sum())]))
    hidden = model.decode(copies.to(model.device), memory, row.lengths, record)
    words = likeliest(model, hidden)[:, 0].long().cpu()
    read = torch.ones_like(words, dtype=torch.bool)
    if model.fertility is None:
        read = kept(words, copies.lengths)
    origins = torch.arange(len(counts)).repeat_interleave(counts)
    return Written(counts.tolist(), origins.tolist(), words.tolist(), read.tolist())
