"""Batches from a dataset: sampled for training, in order for validation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from regard.bounds import COUNT, Ge, Le
from regard.config import Doc, Settings
from regard.data.batch import Batch
from regard.data.masking import MaskingConfig
from regard.data.sampling import (
    Indices,
    Position,
    RankShard,
    Turn,
    Weights,
    endless,
    epoch_batches,
    fill,
)


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


class Examples:
    """The examples of one epoch, or of a validation set, and how many tokens each has."""

    def __init__(
        self,
        source: NDArray[np.int64],
        target: NDArray[np.int64] | None = None,
        *,
        collate: Callable[[Indices, Indices], Batch],
        weights: Weights | None = None,
    ) -> None:
        """Tokens of source and target (the same, if there is one row), special tokens counted.

        `collate` makes a batch of some examples: this rank's shard of a whole batch.
        """
        self.source, self.target = source, source if target is None else target
        self.weights = weights  # how often each is read in an epoch; None: once
        self.batch = collate

    def sampled(self, budget: int, seed: int, epoch: int) -> list[Indices]:
        """The batches of a training epoch, each of at most `budget` tokens on either side."""
        return epoch_batches(
            self.source, self.target, budget=budget, seed=seed, epoch=epoch, weights=self.weights
        )

    def in_order(self, budget: int) -> list[Indices]:
        """All examples once, from short to long."""
        order = np.lexsort((self.source, self.target))
        runs = fill(self.source[order], self.target[order], budget)
        return [order[begin:end] for begin, end in runs]


class Dataset(ABC):
    """One part of a store as a task reads it."""

    @abstractmethod
    def examples(self, epoch: int | None) -> Examples:
        """The examples of a training epoch; None: those of a validation."""

    def empty_batch(self) -> Batch:
        """A batch without a target, for a rank whose shard of a batch is empty."""
        return Batch.empty()


class FixedDataset(Dataset):
    """Examples that are the same in each epoch; `collate` makes a batch of some of them."""

    def __init__(
        self,
        source: NDArray[np.int64],
        target: NDArray[np.int64] | None = None,
        *,
        collate: Callable[[Indices, int | None], Batch],
        weights: Weights | None = None,
    ) -> None:
        """Tokens of source and target; `collate` is given indices and the epoch."""
        self._tokens, self._weights, self._collate = (source, target), weights, collate

    def examples(self, epoch: int | None) -> Examples:
        """All examples; weights are for training."""
        weights = None if epoch is None else self._weights
        return Examples(
            *self._tokens, collate=lambda own, _: self._collate(own, epoch), weights=weights
        )


class Loader:
    """A dataset as an endless sequence of batches, or of one rank's shard of each.

    A batch is divided before its examples are read, so a rank reads its own examples only.
    """

    def __init__(
        self, dataset: Dataset, batch_tokens: int, *, seed: int, shard: RankShard | None = None
    ) -> None:
        self._dataset, self._budget = dataset, batch_tokens
        self._seed, self._shard = seed, shard or RankShard()

    def batches(
        self, position: Position, turn: Turn | None = None
    ) -> Iterator[tuple[Position, Batch]]:
        """Batches from a position on, or those of a turn, each with the position after it."""
        turn = turn or Turn()
        for after, (examples, indices) in turn.among(endless(position, self._sampled)):
            tokens = examples.source[indices] + examples.target[indices]
            own = indices[self._shard.places(tokens)]
            batch = examples.batch(own, indices) if len(own) else self._dataset.empty_batch()
            yield after, batch

    def _sampled(self, epoch: int) -> list[tuple[Examples, Indices]]:
        examples = self._dataset.examples(epoch)
        sampled = examples.sampled(self._budget, self._seed, epoch)
        return [(examples, indices) for indices in sampled]


def validation_batches(dataset: Dataset, batch_tokens: int) -> Iterator[Batch]:
    """All examples of a validation set once, in batches that are the same each time."""
    examples = dataset.examples(None)
    for indices in examples.in_order(batch_tokens):
        yield examples.batch(indices, indices)
