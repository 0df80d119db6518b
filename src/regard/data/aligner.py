"""Which source word each target word comes from: IBM's model 2 with a diagonal prior.

(Dyer, Chahuneau and Smith, 2013: fast_align.) A target word comes from no source word with the
probability `NULL`, else from one that is likely to stand where it stands itself:

    p(i | j) ~ exp(-tension * |i / S - j / T|)      and then      p(word) = t(word | source word)

Both are learned by expectation and maximisation: t under a sparse prior, in variational Bayes, so
that rare words do not collect what nobody else wants; the tension by Newton's steps.

Each target word against each word of its source, and against none, is a cell. Cells lie end to end
in arrays, so that an iteration is a few passes over them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.rows import Rows

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]
NULL = 0.08
_SPARSE = 0.01  # what the prior counts of two words
_UNSEEN = 1e-9  # the probability of words that were never seen together
_PORTION = 1_000_000  # cells that are worked on at once
_MOST = 200_000_000  # cells that are learned from, at eight bytes each


@dataclass(frozen=True)
class Aligner:
    """What was learned of one direction: target words that come from source words."""

    words: int  # how many target words there are, the empty one included
    seen: Ids  # all words that were seen together, as `_Cells.keys` are; they ascend
    t: Floats  # t(target | source) of each of them
    tension: float

    def heads(self, source: Rows, target: Rows) -> Iterator[Ids]:
        """For each pair, the place in the source that each target word comes from; -1: none."""
        for pairs in _portions(source, target, np.arange(len(source))):
            cells = _Cells.of(source, target, pairs, self.words)
            keys, own = np.unique(cells.keys, return_inverse=True)
            places = np.minimum(np.searchsorted(self.seen, keys), len(self.seen) - 1)
            t = np.where(self.seen[places] == keys, self.t[places], _UNSEEN)
            best = cells.likeliest(t[own] * cells.prior(self.tension))
            yield from np.split(best, np.cumsum(target.lengths()[pairs])[:-1])


@dataclass(frozen=True)
class BothWays:
    """What was learned of both directions."""

    forward: Aligner  # where target words come from
    backward: Aligner  # where source words come from

    @staticmethod
    def learn(source: Rows, target: Rows) -> BothWays:
        """From pairs of sentences of ids."""
        return BothWays(learn(source, target), learn(target, source))

    def heads(self, source: Rows, target: Rows) -> Iterator[tuple[Ids, Ids]]:
        """For each pair, the places that target words come from, and those of source words."""
        yield from zip(
            self.forward.heads(source, target), self.backward.heads(target, source), strict=True
        )


def learn(source: Rows, target: Rows, *, iterations: int = 5) -> Aligner:
    """From pairs of sentences of ids; of a huge number, from some at even distances."""
    words = int(target.flat().max(initial=0)) + 2
    sizes = (source.lengths() + 1) * target.lengths()
    some = np.arange(0, len(source), max(1, -(-int(sizes.sum()) // _MOST)))
    seen, portions = _numbered(
        _Cells.of(source, target, pairs, words) for pairs in _portions(source, target, some)
    )
    t, tension = np.ones(len(seen)), 4.0
    for _ in range(iterations):
        counts, moments = np.zeros(len(seen)), np.zeros(3)
        for cells in portions:
            prior = cells.prior(tension)
            share = cells.shared_out(t[cells.keys] * prior)
            counts += np.bincount(cells.keys, share, minlength=len(seen))
            moments += cells.moments(prior, share)
        t = _maximised(counts, seen // words)
        tension = _tightened(tension, *moments)
    return Aligner(words, seen, t, tension)


def _portions(source: Rows, target: Rows, pairs: Ids) -> Iterator[Ids]:
    """The same pairs in portions that can be worked on at once."""
    if len(pairs):
        sizes = np.cumsum((source.lengths()[pairs] + 1) * target.lengths()[pairs])
        yield from np.split(pairs, np.flatnonzero(np.diff(sizes // _PORTION)) + 1)


@dataclass(frozen=True)
class _Cells:
    """The cells of some pairs: target word by target word, the empty word before its source."""

    keys: NDArray[np.integer]  # of each cell, both words as one number
    distances: NDArray[np.float32]  # from the diagonal
    rows: Ids  # where the cells of each target word begin
    widths: Ids  # and how many they are

    @staticmethod
    def of(source: Rows, target: Rows, pairs: Ids, words: int) -> _Cells:
        """Keys are `source * words + target`, 0 being the empty word."""
        sources, targets = source.lengths()[pairs], target.lengths()[pairs]
        own = np.repeat(np.arange(len(pairs)), targets)
        widths = sources[own] + 1
        rows = np.cumsum(widths) - widths
        word = _inside(targets)
        place = _inside(widths)
        begins = np.cumsum(sources) - sources
        spoken = np.append(_joined(source, pairs), -1) + 1  # there may be none at all
        from_ = spoken[np.repeat(begins[own] - 1, widths) + place]
        from_[rows] = 0
        to = _joined(target, pairs) + 1
        to[to >= words] = 0  # a word that was never seen; the empty word is nobody's translation
        across = (place - 0.5) / np.repeat(np.maximum(sources[own], 1), widths)
        down = np.repeat((word + 0.5) / targets[own], widths)
        return _Cells(
            from_ * words + np.repeat(to, widths),
            np.abs(across - down, dtype=np.float32),
            rows,
            widths,
        )

    def prior(self, tension: float) -> Floats:
        """How likely each target word comes from each place."""
        weights = np.exp(-tension * self.distances.astype(np.float64))
        weights[self.rows] = 0
        sums = np.add.reduceat(weights, self.rows)
        weights *= np.repeat((1 - NULL) / np.maximum(sums, _UNSEEN), self.widths)
        weights[self.rows] = NULL
        return weights

    def shared_out(self, joint: Floats) -> Floats:
        """Each target word, shared out among its cells."""
        return joint / np.repeat(np.add.reduceat(joint, self.rows), self.widths)

    def moments(self, prior: Floats, share: Floats) -> Floats:
        """How far from the diagonal words are, by their shares; by the prior; and its variance.

        All are sums over target words, as far as they come from a word.
        """
        real = 1 - share[self.rows]
        share, prior = share.copy(), prior / (1 - NULL)
        share[self.rows] = prior[self.rows] = 0
        mean = np.add.reduceat(prior * self.distances, self.rows)
        square = np.add.reduceat(prior * self.distances**2, self.rows)
        return np.array([share @ self.distances, real @ mean, real @ (square - mean**2)])

    def likeliest(self, joint: Floats) -> Ids:
        """The best place for each target word, the first of equals; -1: the empty word."""
        highest = np.repeat(np.maximum.reduceat(joint, self.rows), self.widths)
        cells = np.flatnonzero(joint == highest)
        return cells[np.searchsorted(cells, self.rows)] - self.rows - 1


def _joined(side: Rows, pairs: Ids) -> Ids:
    """The words of some sentences, end to end."""
    return np.concatenate([side[index] for index in pairs.tolist()]).astype(np.int64)


def _inside(lengths: Ids) -> Ids:
    """0, 1, 2, ... within each of some rows."""
    ends = np.cumsum(lengths)
    return np.arange(lengths.sum()) - np.repeat(ends - lengths, lengths)


def _numbered(portions: Iterable[_Cells]) -> tuple[Ids, list[_Cells]]:
    """All keys, and the cells with the number of their key among them in its place."""
    keys, cells = [], []
    for portion in portions:  # one after the other, since keys take more room than all the rest
        own, numbers = np.unique(portion.keys, return_inverse=True)
        keys.append(own)
        cells.append(replace(portion, keys=numbers.astype(np.int32)))
    seen = np.unique(np.concatenate(keys))
    for place, own in enumerate(keys):
        numbers = np.asarray(np.searchsorted(seen, own), dtype=np.int32)
        cells[place] = replace(cells[place], keys=numbers[cells[place].keys])
    return seen, cells


def _maximised(counts: Floats, sources: Ids) -> Floats:
    """What each source word was given, as t under a Dirichlet prior, in variational Bayes."""
    counts = counts + _SPARSE
    totals: Floats = np.bincount(sources, counts).astype(np.float64)
    found: Floats = np.exp(_digamma(counts) - _digamma(totals)[sources])
    return found


def _digamma(values: Floats) -> Floats:
    found: Floats = torch.special.digamma(torch.from_numpy(values)).numpy()
    return found


def _tightened(tension: float, distance: float, expected: float, variance: float) -> float:
    """A step towards the tension under which the prior expects the distance that there is."""
    step = (expected - distance) / max(variance, 1e-12)
    return float(np.clip(tension + step, max(0.1, tension / 2), min(30.0, tension * 2)))
