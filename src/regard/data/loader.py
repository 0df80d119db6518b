"""Datasets and loaders: shuffled batches for training, ordered ones for validation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from regard.bounds import COUNT, Ge, Le
from regard.config import Doc, Formerly, Settings
from regard.data.batch import Batch
from regard.data.masking import MaskingConfig
from regard.data.sampling import (
    Indices,
    Position,
    RankShard,
    Shard,
    Weights,
    epoch_batches,
    fill_batches,
    iterate_epochs,
)


@dataclass(frozen=True)
class DataConfig(Settings):
    """Training data and batching."""

    folder: Annotated[str, Doc("prepared folder, relative to the working directory")] = "data"
    batch_tokens: Annotated[
        int,
        Doc("maximum number of tokens per batch, on the source and on the target side"),
        Ge(1),
        COUNT,
    ] = 4096
    corpus_weights: Annotated[
        tuple[float, ...],
        Doc("number of passes over each corpus per epoch; default: 1 each"),
        Ge(0),
        Le(1000),
        Formerly("weights"),
    ] = ()
    direction_temperature: Annotated[
        float,
        Doc(
            "several directions: temperature T of sampling; a direction of n pairs is read in "
            "proportion to n^(1/T), 1: as often as its pairs"
        ),
        Ge(1),
        Le(1000),
    ] = 1.0
    subword_nbest_size: Annotated[
        int,
        Doc("subword regularization: segmentations to sample from (unigram only); 1 disables it"),
        Ge(1),
        Le(1000),
        Formerly("sampling_candidates"),
    ] = 1
    subword_temperature: Annotated[
        float,
        Doc("subword regularization: sampling temperature; low values favor the best segmentation"),
        Ge(0.01),
        Le(1000),
        Formerly("sampling_temperature"),
    ] = 5.0
    masking: MaskingConfig = field(default_factory=MaskingConfig)
    num_workers: Annotated[
        int | None,
        Doc("worker processes that prefetch batches; default: chosen automatically"),
        Ge(0),
        Le(256),
        Formerly("workers"),
    ] = None


class Examples:
    """The examples of one epoch, or of a validation set, and their numbers of tokens."""

    def __init__(
        self,
        source: NDArray[np.int64],
        target: NDArray[np.int64] | None = None,
        *,
        collate: Callable[[Indices, Indices], Batch],
        weights: Weights | None = None,
    ) -> None:
        """Numbers of tokens of source and target (equal by default), special tokens included.

        `collate(indices, whole)` makes a batch of this rank's examples `indices`; `whole` has those
        of all ranks.
        """
        self.source, self.target = source, source if target is None else target
        self.weights = weights  # how often each is read per epoch; None: once
        self.collate = collate

    def shuffled_batches(self, max_tokens: int, seed: int, epoch: int) -> list[Indices]:
        """The batches of a training epoch, of at most `max_tokens` tokens on either side."""
        return epoch_batches(
            self.source,
            self.target,
            max_tokens=max_tokens,
            seed=seed,
            epoch=epoch,
            weights=self.weights,
        )

    def ordered_batches(self, max_tokens: int) -> list[Indices]:
        """Batches of all examples, once each, by increasing length."""
        order = np.lexsort((self.source, self.target))
        batches = fill_batches(self.source[order], self.target[order], max_tokens)
        return [order[begin:end] for begin, end in batches]


class Dataset(ABC):
    """A part of a store, such as "train", as the examples of a task."""

    @abstractmethod
    def examples(self, epoch: int | None) -> Examples:
        """The examples of a training epoch; None: the examples for validation."""

    def empty_batch(self) -> Batch:
        """A batch without targets, for a rank whose shard of a batch is empty."""
        return Batch.empty()


class FixedDataset(Dataset):
    """Examples that are the same in each epoch."""

    def __init__(
        self,
        source: NDArray[np.int64],
        target: NDArray[np.int64] | None = None,
        *,
        collate: Callable[[Indices, int | None], Batch],
        weights: Weights | None = None,
    ) -> None:
        """Numbers of tokens of source and target; `collate(indices, epoch)` makes a batch."""
        self._tokens, self._weights, self._collate = (source, target), weights, collate

    def examples(self, epoch: int | None) -> Examples:
        """All examples; weights apply to training only."""
        weights = None if epoch is None else self._weights
        return Examples(
            *self._tokens, collate=lambda indices, _: self._collate(indices, epoch), weights=weights
        )


class DatasetSubset(Dataset):
    """Some examples of a dataset, for validation."""

    def __init__(self, dataset: Dataset, indices: Indices) -> None:
        self._dataset, self._indices = dataset, indices

    def examples(self, epoch: int | None) -> Examples:
        """The selected examples."""
        assert epoch is None, "training reads all examples"
        every, selected = self._dataset.examples(epoch), self._indices

        def collate(indices: Indices, whole: Indices) -> Batch:
            return every.collate(selected[indices], selected[whole])

        return Examples(every.source[selected], every.target[selected], collate=collate)


class Loader:
    """An infinite sequence of batches of a dataset, or of one rank's shard of each.

    Batches are sharded before examples are read, so a rank reads only its own examples.
    """

    def __init__(
        self, dataset: Dataset, batch_tokens: int, *, seed: int, shard: RankShard | None = None
    ) -> None:
        self._dataset, self._max_tokens = dataset, batch_tokens
        self._seed, self._shard = seed, shard or RankShard()

    def batches(
        self, position: Position, worker_shard: Shard | None = None
    ) -> Iterator[tuple[Position, Batch]]:
        """Batches from a position on, each with the position after it.

        `worker_shard` limits them to the batches of one worker process.
        """
        shard = worker_shard or Shard()
        for after, (examples, indices) in shard.select(
            iterate_epochs(position, self._epoch_batches)
        ):
            tokens = examples.source[indices] + examples.target[indices]
            local = indices[self._shard.indices(tokens)]
            batch = examples.collate(local, indices) if len(local) else self._dataset.empty_batch()
            yield after, batch

    def _epoch_batches(self, epoch: int) -> list[tuple[Examples, Indices]]:
        examples = self._dataset.examples(epoch)
        batches = examples.shuffled_batches(self._max_tokens, self._seed, epoch)
        return [(examples, indices) for indices in batches]


def validation_batches(dataset: Dataset, batch_tokens: int) -> Iterator[Batch]:
    """All examples of a validation set once, in deterministic batches."""
    examples = dataset.examples(None)
    for indices in examples.ordered_batches(batch_tokens):
        yield examples.collate(indices, indices)
