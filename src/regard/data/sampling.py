"""Which sentences make which batch: a pure function of seed and epoch.

Sentences of like length come together, and batches are filled to a budget of tokens; then the
batches are shuffled. Since nothing but seed and epoch decides, a position in the data is two
numbers, and a run that stopped anywhere goes on with the very next batch.
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
    """How far a run has read: whole epochs, and batches of the current one."""

    epoch: int = 0
    batch: int = 0


@dataclass(frozen=True)
class RankShard:
    """The part of each batch that one rank reads."""

    rank: int = 0
    world_size: int = 1

    def places(self, lengths: NDArray[np.int64]) -> Indices:
        """Which sentences of a batch these are, in their order.

        From the longest to the shortest, they are dealt out to and fro: 0 1 2, 2 1 0, 0 1 2. So
        the shards of a batch differ by no more tokens than its longest sentence has.
        """
        turn = np.arange(len(lengths)) % (2 * self.world_size)
        owner = np.minimum(turn, 2 * self.world_size - 1 - turn)
        order = np.argsort(-lengths, kind="stable")
        return np.sort(order[owner == self.rank])


@dataclass(frozen=True)
class Turn:
    """Every so many batches: the one with this number, counted from 0, and each `of` later."""

    number: int = 0
    of: int = 1

    def among(self, batches: Iterable[T]) -> Iterator[T]:
        """Those of all batches that belong to it."""
        return islice(batches, self.number, None, self.of)


def epoch_batches(
    source: NDArray[np.int64],
    target: NDArray[np.int64],
    *,
    budget: int,
    seed: int,
    epoch: int,
    weights: Weights | None = None,
) -> list[Indices]:
    """The batches of an epoch, each with at most `budget` tokens on either side.

    A sentence longer than the budget is a batch of its own. The lengths are jittered before they
    are sorted, so that the same sentences do not meet in every epoch. With weights (one for each
    sentence), a sentence comes as often as its weight says, in the mean over the epochs.
    """
    generator = np.random.default_rng([seed, epoch])
    drawn = np.arange(len(target)) if weights is None else _drawn(weights, generator)
    source, target = source[drawn], target[drawn]
    jitter = 2 * generator.random((2, len(target)))  # below 1, it would move no whole number
    order = np.lexsort((source + jitter[0], np.floor(target + jitter[1])))
    batches = fill(source[order], target[order], budget)
    generator.shuffle(batches)
    return [drawn[order[begin:end]] for begin, end in batches]


def _drawn(weights: Weights, generator: np.random.Generator) -> Indices:
    """Each sentence as often as the whole of its weight, and once more by the chance of the rest.

    That is floor(weight + u) with u uniform between 0 and 1, but for rounding in the sum.
    """
    whole = np.floor(weights)
    times = whole + (generator.random(len(weights)) < weights - whole)
    return np.repeat(np.arange(len(weights)), times.astype(np.int64))


def fill(
    source: NDArray[np.int64], target: NDArray[np.int64], budget: int
) -> list[tuple[int, int]]:
    """Cut a row of sentences into runs (begin, end) that keep within the budget on both sides."""
    ends = np.cumsum(source), np.cumsum(target)
    runs: list[tuple[int, int]] = []
    begin = 0
    while begin < len(target):
        limits = [side[begin - 1] + budget if begin else budget for side in ends]
        fitting = min(
            int(np.searchsorted(side, limit, side="right"))
            for side, limit in zip(ends, limits, strict=True)
        )
        end = max(fitting, begin + 1)
        runs.append((begin, end))
        begin = end
    return runs


def endless(
    position: Position, of_epoch: Callable[[int], Sequence[T]]
) -> Iterator[tuple[Position, T]]:
    """The batches of one epoch after another from a position on, each with the position after it.

    An epoch may be without a batch (small weights do that); it is passed over.
    """
    epoch, first = position.epoch, position.batch
    while True:
        batches = of_epoch(epoch)
        for number in range(first, len(batches)):
            last = number + 1 == len(batches)
            after = Position(epoch + 1, 0) if last else Position(epoch, number + 1)
            yield after, batches[number]
        epoch, first = epoch + 1, 0
