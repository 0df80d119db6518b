"""Token-based batching: a deterministic function of seed and epoch.

Sentences of similar length are grouped into batches of at most `max_tokens` tokens, and the
batches are shuffled. A position in the data is an epoch and a batch index, so that a run resumes
with exactly the next batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Weights = NDArray[np.float64]
T = TypeVar("T")


@dataclass(frozen=True)
class Position:
    """Progress of a run: finished epochs, and finished batches of the current epoch."""

    epoch: int = 0
    batch: int = 0


@dataclass(frozen=True)
class RankShard:
    """The shard of each batch that one rank processes."""

    rank: int = 0
    world_size: int = 1

    def indices(self, lengths: NDArray[np.int64]) -> Indices:
        """The indices of this rank's sentences in a batch, ascending.

        Sentences are assigned to ranks by decreasing length in alternating order: 0 1 2, 2 1 0,
        0 1 2. So the shards of a batch differ by at most the length of its longest sentence.
        """
        step = np.arange(len(lengths)) % (2 * self.world_size)
        ranks = np.minimum(step, 2 * self.world_size - 1 - step)
        order = np.argsort(-lengths, kind="stable")
        return np.sort(order[ranks == self.rank])


@dataclass(frozen=True)
class Shard:
    """One of several disjoint parts of a sequence: every `count`-th item from `index` on."""

    index: int = 0
    count: int = 1

    def select(self, items: Iterable[T]) -> Iterator[T]:
        """The items of this shard."""
        return islice(items, self.index, None, self.count)


def epoch_batches(
    source: NDArray[np.int64],
    target: NDArray[np.int64],
    *,
    max_tokens: int,
    seed: int,
    epoch: int,
    weights: Weights | None = None,
) -> list[Indices]:
    """The batches of an epoch, each with at most `max_tokens` tokens on either side.

    A sentence longer than `max_tokens` is a batch of its own. Lengths are jittered before sorting,
    so that batches differ between epochs. A weight is the mean number of times that a sentence
    occurs per epoch.
    """
    generator = np.random.default_rng([seed, epoch])
    sampled = np.arange(len(target)) if weights is None else _sample_by_weight(weights, generator)
    source, target = source[sampled], target[sampled]
    jitter = 2 * generator.random(
        (2, len(target))
    )  # an amplitude below 1 would not change integer lengths
    order = np.lexsort((source + jitter[0], np.floor(target + jitter[1])))
    batches = fill_batches(source[order], target[order], max_tokens)
    generator.shuffle(batches)
    return [sampled[order[begin:end]] for begin, end in batches]


def _sample_by_weight(weights: Weights, generator: np.random.Generator) -> Indices:
    """Indices of sentences: floor(weight) times, plus once with the probability of the rest.

    That is floor(weight + u) with u uniform between 0 and 1, except for rounding.
    """
    whole = np.floor(weights)
    times = whole + (generator.random(len(weights)) < weights - whole)
    return np.repeat(np.arange(len(weights)), times.astype(np.int64))


def fill_batches(
    source: NDArray[np.int64], target: NDArray[np.int64], max_tokens: int
) -> list[tuple[int, int]]:
    """Group consecutive sentences into (begin, end) with at most `max_tokens` on either side."""
    ends = np.cumsum(source), np.cumsum(target)
    batches: list[tuple[int, int]] = []
    begin = 0
    while begin < len(target):
        limits = [side[begin - 1] + max_tokens if begin else max_tokens for side in ends]
        fitting = min(
            int(np.searchsorted(side, limit, side="right"))
            for side, limit in zip(ends, limits, strict=True)
        )
        end = max(fitting, begin + 1)
        batches.append((begin, end))
        begin = end
    return batches


def iterate_epochs(
    position: Position, epoch_items: Callable[[int], Sequence[T]]
) -> Iterator[tuple[Position, T]]:
    """The batches of all epochs from a position on, each with the position after it.

    Epochs without a batch, which small weights can cause, are skipped.
    """
    epoch, first = position.epoch, position.batch
    while True:
        batches = epoch_items(epoch)
        for number in range(first, len(batches)):
            last = number + 1 == len(batches)
            after = Position(epoch + 1, 0) if last else Position(epoch, number + 1)
            yield after, batches[number]
        epoch, first = epoch + 1, 0
