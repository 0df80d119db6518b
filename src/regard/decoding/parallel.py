"""All words at once: fertilities chosen or drawn, one pass of the decoder, and a teacher's choice.

A model with fertilities has an output for each row of them: for the likeliest, for the mean ones,
or for several drawn ones. One with CTC has one, or several that it finds likeliest over all paths.
Of several, a model that writes word by word keeps what it finds best (noisy parallel decoding).

What is counted and drawn lies on the host; a device makes passes only, and is waited for once or,
with fertilities, twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.attention.multihead import AttentionRecord
from regard.data.batch import Batch
from regard.data.ragged import Lengths, Ragged
from regard.decoding.config import SearchConfig
from regard.decoding.ctc_beam import Places, best_readings
from regard.decoding.engine import Hypothesis, best_first, finished, over_pairs
from regard.decoding.greedy import drawn, keyed_generator
from regard.decoding.passes import EagerPasses
from regard.decoding.score import token_gains
from regard.errors import ConfigError
from regard.layers.ctc import BLANK, kept
from regard.models.base import Model
from regard.models.nonautoregressive import NonAutoregressive, never_silent
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
    passes: EagerPasses | None = None,
) -> list[list[Hypothesis]]:
    """`top_beams` hypotheses for each source sentence, best first."""
    refuse_what_needs_steps(model, config, teacher)
    source = source.to(torch.device("cpu"))
    passes = passes or EagerPasses(model.device)
    if model.fertility is not None:
        found = _under_fertilities(model, source, config, passes)
    else:
        found = (_readings if config.candidates > 1 else _read)(model, source, config, passes)
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


def _read(
    model: NonAutoregressive, source: Ragged, config: SearchConfig, passes: EagerPasses
) -> list[list[Hypothesis]]:
    """What CTC reads on the likeliest path of each sentence."""

    def work(row: Ragged) -> Tensor:
        places = model.spread(row)
        hidden = model.decode(places, model.encode(row), row.lengths)
        found = likeliest(model, hidden)
        found[:, 0].masked_fill_(~kept(found[:, 0], places.lengths), _DROPPED)
        return found

    places = source.lengths.times(model.config.copies)
    found = _hypotheses(passes("read", work, [source]), places, config)
    return [[hypothesis] for hypothesis in found]


def _readings(
    model: NonAutoregressive, source: Ragged, config: SearchConfig, passes: EagerPasses
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
            _hypothesis(map(int, words[: int(length)]), total, config)
            for total, length, *words in readings
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


def _under_fertilities(
    model: NonAutoregressive, source: Ragged, config: SearchConfig, passes: EagerPasses
) -> list[list[Hypothesis]]:
    """What is written under each row of fertilities, for each sentence."""
    assert model.fertility is not None
    of_each = model.fertility

    def encode(row: Ragged) -> Tensor:
        """The logits of fertilities, and the encoder output after them. (N, classes + D)"""
        memory = model.encode(row)
        return torch.cat([of_each(memory), memory], 1)

    known = passes("encode", encode, [source])
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


def fertilities(log_probs: Tensor, source: Ragged, config: SearchConfig) -> Tensor:
    """Rows of fertilities: the likeliest or the mean ones, then drawn ones.

    log_probs (N, classes) -> (candidates, N)
    """
    if config.fertility == "average":
        classes = torch.arange(log_probs.shape[1])
        first = (log_probs.exp() * classes).sum(-1).round().long()
    else:
        first = log_probs.argmax(-1)
    if config.candidates == 1:
        return first[None]
    # Numbers between 0 and 1 are keyed by the sentence: the same in any batch.
    rounds = config.candidates - 1
    parts = [
        keyed_generator(config.seed, 0, ids.tolist()).random((rounds, len(ids)))
        for ids in source.tokens.split(source.lengths.host.tolist())
    ]
    draws = torch.from_numpy(np.concatenate(parts, 1))
    others = drawn(log_probs.exp().repeat(rounds, 1), draws.flatten()).view(draws.shape)
    return torch.cat([first[None], others])


def limited(
    rows: Tensor, source: Ragged, config: SearchConfig, max_length: int | None = None
) -> Tensor:
    """Fertilities that sum to no more than a sentence's limit, and to no less than one word.

    rows (candidates, N) -> (candidates, N)
    """
    lengths = source.lengths
    limits = torch.tensor([config.limit(n, max_length) - 1 for n in lengths.host.tolist()])
    before = rows.cumsum(1) - rows
    before = before - before[:, lengths.offsets[:-1].long()][:, lengths.sentence]
    rows = rows.minimum((limits[lengths.sentence] - before).clamp(min=0))
    return never_silent(rows, lengths)


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
    every = np.split(table, np.cumsum(lengths.host.numpy())[:-1])
    return [
        _hypothesis(map(int, words[words != _DROPPED]), gains.sum(), config)
        for words, gains in (part.T for part in every)
    ]


def _hypothesis(words: Iterable[int], total: float, config: SearchConfig) -> Hypothesis:
    return finished([*words, SPECIAL.end], float(total), config.length_penalty)


def _judged(
    teacher: Model,
    source: Ragged,
    found: Sequence[Sequence[Hypothesis]],
    config: SearchConfig,
    passes: EagerPasses,
) -> list[list[Hypothesis]]:
    """The different outputs of each sentence with the teacher's scores, the best first."""
    sources = [ids.tolist()[:-1] for ids in source.tokens.split(source.lengths.host.tolist())]
    outputs = [
        (sentence, words)
        for sentence, several in enumerate(found)
        for words in dict.fromkeys(tuple(one.tokens) for one in several)
    ]

    def totals(batch: Batch) -> list[float]:
        lengths = batch.target.lengths
        gains = passes("judge", lambda *sides: token_gains(teacher, Batch(*sides)), batch.sides)
        sums: list[float] = lengths.sums(gains[: lengths.total].double().cpu()).tolist()
        return sums

    pairs = [(sources[sentence], words) for sentence, words in outputs]
    told = over_pairs(pairs, torch.device("cpu"), _JUDGED, totals)
    judged: list[list[Hypothesis]] = [[] for _ in found]
    for (sentence, words), total in zip(outputs, told, strict=True):
        judged[sentence].append(_hypothesis(words, total, config))
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
