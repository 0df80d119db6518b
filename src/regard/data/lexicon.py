"""Which target subwords a source subword stands for, learned from pairs by IBM's model 1.

(Brown et al., 1993.) Each target subword comes from one source subword of its pair, any of them
alike, with the probability t(target | source). Expectation: a target subword is shared out among
the source's by that probability. Maximisation: t is what each source subword was given, over all.

Source subwords are gone through one by one, with one dense row of t at a time, so that memory
stays that of the corpus, and nothing is looked up but by place.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.data.store import Part
from regard.text.special import SPECIAL

Ids = NDArray[np.int64]
_NEGLIGIBLE = 1e-7  # a probability that is forgotten; without it, memory grows with the square


def likeliest(
    part: Part, sizes: tuple[int, int], *, count: int, without: Ids, iterations: int = 5
) -> Ids:
    """For each source subword, up to `count` target subwords, the likeliest first; then -1.

    `sizes` are those of the vocabularies; target subwords `without` are passed over. The end mark
    stands in every source, and takes what comes from no subword in particular. Of equally likely
    subwords, the smaller id is first.
    """
    pairs = _Pairs(part, *sizes)
    rows: list[_Row | None] = [None] * sizes[0]  # None: all alike
    for _ in range(iterations):
        rows = pairs.maximised(rows, pairs.expected(rows))
    best = np.full((sizes[0], count), -1, dtype=np.int64)
    for source, row in enumerate(rows):
        if row is not None:
            ranked = row.targets[np.argsort(-row.probabilities, kind="stable")]
            chosen = ranked[~np.isin(ranked, without)][:count]
            best[source, : len(chosen)] = chosen
    return best


@dataclass(frozen=True)
class _Row:
    """t(target | source) of one source subword, where it is not negligible; ids ascend."""

    targets: Ids
    probabilities: NDArray[np.float64]


class _Pairs:
    """A corpus, to be gone through by source subword."""

    def __init__(self, part: Part, source_size: int, target_size: int) -> None:
        source, self._target = (side.flat().astype(np.int64) for side in part.sides)
        self._lengths = part.target.lengths()
        self._begins = np.cumsum(self._lengths) - self._lengths
        self._size = target_size
        sentence = np.repeat(np.arange(len(part)), part.source.lengths())
        everywhere = np.full(len(part), SPECIAL.end) * len(part) + np.arange(len(part))
        found = np.concatenate([source * len(part) + sentence, everywhere])
        keys, times = np.unique(found, return_counts=True)
        self._times = times.astype(np.float64)
        self._sentences = keys % len(part)
        self._bounds = np.searchsorted(keys, np.arange(source_size + 1) * len(part))

    def expected(self, rows: list[_Row | None]) -> NDArray[np.float64]:
        """For each target token, the sum of t over its source, by which it is shared out."""
        total = np.zeros(len(self._target))
        for source in self._sources():
            places, times = self._places(source)
            total[places] += times * self._t(rows[source], self._target[places])
        return total

    def maximised(self, rows: list[_Row | None], total: NDArray[np.float64]) -> list[_Row | None]:
        """New rows: what each source subword is given of all target tokens beside it."""
        made: list[_Row | None] = [None] * len(rows)
        for source in self._sources():
            places, times = self._places(source)
            tokens, sums = self._target[places], total[places]
            given = times * self._t(rows[source], tokens)
            share = np.divide(given, sums, out=np.zeros_like(sums), where=sums > 0)
            counts = np.bincount(tokens, share, minlength=self._size).astype(np.float64)
            counts /= max(counts.sum(), np.finfo(float).tiny)
            targets = np.flatnonzero(counts > _NEGLIGIBLE)
            made[source] = _Row(targets, counts[targets])
        return made

    def _sources(self) -> Ids:
        """The source subwords that occur."""
        return np.flatnonzero(np.diff(self._bounds))

    def _places(self, source: int) -> tuple[Ids, NDArray[np.float64]]:
        """The target tokens of all pairs with a source subword, and how often each has it."""
        own = slice(self._bounds[source], self._bounds[source + 1])
        sentences = self._sentences[own]
        lengths = self._lengths[sentences]
        ends = np.cumsum(lengths)
        places = np.arange(ends[-1]) + np.repeat(
            self._begins[sentences] - (ends - lengths), lengths
        )
        return places, np.repeat(self._times[own], lengths)

    def _t(self, row: _Row | None, tokens: Ids) -> NDArray[np.float64]:
        if row is None:
            return np.ones(len(tokens))
        dense = np.zeros(self._size)
        dense[row.targets] = row.probabilities
        return dense[tokens]
