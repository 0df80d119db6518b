"""Batches from a prepared store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Annotated, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.bounds import COUNT, Ge, Le
from regard.config import Doc, Settings
from regard.data.distributions import read_distributions
from regard.data.fertilities import read_fertilities
from regard.data.masking import Masker, MaskingConfig
from regard.data.one_row import TurnsConfig, as_rows, from_left_to_right, with_hidden_words
from regard.data.ragged import Batch, Distributions, Lengths, Ragged
from regard.data.sampling import Position, Share, Turn, Weights, batches_from, fill
from regard.data.store import Corpus, Part, Store
from regard.errors import ConfigError
from regard.text.recut import Recutter
from regard.text.special import SPECIAL


@dataclass(frozen=True)
class DataConfig(Settings):
    """What a run reads, and in what portions."""

    folder: Annotated[str, Doc("a prepared folder, relative to the working directory")] = "data"
    batch_tokens: Annotated[
        int,
        Doc("a batch holds at most so many source tokens, and as many target tokens, cut best"),
        Ge(1),
        COUNT,
    ] = 4096
    weights: Annotated[
        tuple[float, ...],
        Doc("how often each corpus of the folder is read in an epoch; empty: each once"),
        Ge(0),
        Le(1000),
    ] = ()
    sampling_candidates: Annotated[
        int,
        Doc("cut each word anew among so many ways (unigram only); 1: always the best"),
        Ge(1),
        Le(1000),
    ] = 1
    sampling_temperature: Annotated[
        float,
        Doc("how evenly the ways to cut are drawn; small: mostly the best"),
        Ge(0.01),
        Le(1000),
    ] = 5.0
    masking: MaskingConfig = field(default_factory=MaskingConfig)
    workers: Annotated[
        int | None, Doc("processes that make batches ahead; unset: as many as pay"), Ge(0), Le(256)
    ] = None


@dataclass(frozen=True)
class Turns:
    """How pairs become rows, and what these are asked."""

    config: TurnsConfig
    start: int


@dataclass(frozen=True)
class Extras:
    """What a batch brings beside its pairs."""

    fertilities: bool = False
    distributions: bool = False
    rows: Turns | None = None  # whether each pair is one row

    def part(self, store: Store, name: str) -> Part:
        """The pairs of a part, with what belongs to them."""
        part = store.part(name)
        if self.fertilities:
            part = replace(part, fertilities=read_fertilities(store.folder, name))
        if self.distributions:
            part = replace(part, distributions=read_distributions(store))
        return part

    def refuse_other_cuts(self) -> None:
        """What is stored for each subword is of no use to others."""
        if self.fertilities:
            raise ConfigError(
                "data.sampling_candidates cuts words anew each time, and the fertilities of the "
                "store are those of the best cuts. Set data.sampling_candidates=1, or train with "
                "model.lengths=ctc, which needs no fertilities."
            )
        if self.distributions:
            raise ConfigError(
                "data.sampling_candidates cuts words anew each time, and the teacher's "
                "distributions are for the best cuts. Set data.sampling_candidates=1, or "
                "training.word_distillation=0."
            )


class Batches(Protocol):
    """Whatever makes the batches of a run, one after another."""

    def batches(
        self, position: Position, turn: Turn | None = None
    ) -> Iterator[tuple[Position, Batch]]:
        """Batches from a position on, or those of a turn, each with the position after it."""
        ...


class Loader:
    """The training part of a store as an endless row of batches, or of a share of each.

    A batch is divided before anything of it is read, so a process reads only what is its own.
    """

    def __init__(
        self,
        store: Store,
        config: DataConfig,
        *,
        seed: int,
        share: Share | None = None,
        extras: Extras | None = None,
    ) -> None:
        extras = extras or Extras()
        if config.sampling_candidates > 1:
            extras.refuse_other_cuts()
        self._recutters = recutters(store, config)
        self._part = extras.part(store, "train")
        self._weights = pair_weights(self._part.corpora, config.weights)
        self._config = config
        self._seed = seed
        self._share = share or Share()
        self._turns = extras.rows
        self._masker = Masker(store.tokenizers.target, config.masking, SPECIAL.unknown)

    def batches(
        self, position: Position, turn: Turn | None = None
    ) -> Iterator[tuple[Position, Batch]]:
        """Batches from a position on, or those of a turn, each with the position after it."""
        turn = turn or Turn()
        epoch = position.epoch
        source = self._part.source.lengths() + 1  # each sentence gets its end mark
        target = self._part.target.lengths() + 1
        planned = batches_from(
            position,
            source,
            target,
            budget=self._config.batch_tokens,
            seed=self._seed,
            weights=self._weights,
        )
        for count, (after, indices) in enumerate(planned):
            if turn.is_at(count):
                own = indices[self._share.places(source[indices] + target[indices])]
                key = f"{self._seed} {epoch} {indices[0]} {len(indices)}"  # the same for all shares
                yield after, self._batch([int(index) for index in own], epoch, key)
            epoch = after.epoch

    def _batch(self, indices: Sequence[int], epoch: int, key: str) -> Batch:
        if not indices:
            return Batch.nothing()
        batch = self._pairs(indices, epoch)
        if self._turns is None:
            return batch
        ask, start = self._turns.config.drawn(key), self._turns.start
        if ask == "bidirectional":
            draws = [np.random.default_rng([self._seed, epoch, index]) for index in indices]
            return with_hidden_words(batch, start, self._masker, draws)
        return as_rows(batch, start) if ask == "prefix" else from_left_to_right(batch, start)

    def _pairs(self, indices: Sequence[int], epoch: int) -> Batch:
        if not self._recutters:
            return collate(self._part, indices)
        draws = [Random(f"{self._seed} {epoch} {index}") for index in indices]
        rows = []
        for recutter, sentences in zip(self._recutters, self._part.sides, strict=True):
            found = [sentences[index].tolist() for index in indices]
            rows.append(with_ends([*map(recutter.recut, found, draws)]))
        source, target = rows
        return Batch(source, target)


def recutters(store: Store, config: DataConfig) -> list[Recutter]:
    """What cuts words of source and target anew, if anything should."""
    if config.sampling_candidates == 1:
        return []
    if store.tokenizers.config.kind != "unigram":
        raise ConfigError(
            "data.sampling_candidates needs a unigram tokenizer, and this store's is "
            f"{store.tokenizers.config.kind}. Prepare with --tokenizer unigram, or set it to 1."
        )
    return [
        Recutter(
            tokenizer,
            candidates=config.sampling_candidates,
            temperature=config.sampling_temperature,
        )
        for tokenizer in (store.tokenizers.source, store.tokenizers.target)
    ]


def pair_weights(corpora: Sequence[Corpus], weights: Sequence[float]) -> Weights | None:
    """The weight of each pair, from those of its corpora; None if each pair comes once."""
    if not weights:
        return None
    if len(weights) != len(corpora):
        raise ConfigError(
            f"data.weights has {len(weights)} numbers, and {len(corpora)} are needed, one for each "
            f"corpus: {'; '.join(map(str, corpora))}. Give them in this order, or none at all."
        )
    sizes = [len(corpus) for corpus in corpora]
    expected = float(np.dot(weights, sizes))
    if expected < 1:  # most epochs, or all, would be empty
        raise ConfigError(
            f"data.weights is {list(weights)}: that leaves {expected:g} pairs an epoch, of "
            f"{sum(sizes)}. Use larger weights."
        )
    return np.repeat(np.asarray(weights, dtype=np.float64), sizes)


def collate(part: Part, indices: Sequence[int]) -> Batch:
    """The pairs of these indices as one batch."""
    source = with_ends([part.source[index] for index in indices])
    target = with_ends([part.target[index] for index in indices])
    fertilities = likely = None
    if part.fertilities is not None:  # an end mark stands for nothing
        fertilities = joined([part.fertilities[index] for index in indices], last=0)
    if part.distributions is not None:
        records = np.concatenate([part.distributions[index] for index in indices])
        words, probabilities = records["ids"].astype(np.int64), records["probabilities"]
        likely = Distributions(torch.from_numpy(words), torch.from_numpy(probabilities))
    return Batch(source, target, fertilities=fertilities, likely=likely)


def with_ends(sentences: Sequence[Sequence[int] | NDArray[np.integer]]) -> Ragged:
    """Sentences of ids as a flat row, each followed by its end mark."""
    lengths = [len(sentence) + 1 for sentence in sentences]
    return Ragged(joined(sentences, last=SPECIAL.end), Lengths.of(lengths))


def joined(rows: Sequence[Sequence[int] | NDArray[np.integer]], *, last: int) -> Tensor:
    """Rows of numbers as one, each followed by a last number."""
    numbers = np.full(sum(map(len, rows)) + len(rows), last, dtype=np.int64)
    begin = 0
    for row in rows:
        numbers[begin : begin + len(row)] = row
        begin += len(row) + 1
    return torch.from_numpy(numbers)


def in_order(part: Part, budget: int) -> Iterator[Batch]:
    """All pairs once, from short to long: for validation."""
    source, target = part.source.lengths() + 1, part.target.lengths() + 1
    order = np.lexsort((source, target))
    for begin, end in fill(source[order], target[order], budget):
        yield collate(part, [int(index) for index in order[begin:end]])
