"""Word alignment: IBM model 2 with a diagonal prior, as in fast_align.

(Dyer, Chahuneau and Smith, 2013.) A target word is aligned to NULL with `NULL_PROBABILITY`,
else to a source word close to the diagonal:

    p(i | j) ~ exp(-tension * |i / S - j / T|)      and then      p(word) = t(word | source word)

Both are trained with EM: t with a sparse Dirichlet prior (variational Bayes), which prevents rare
words from becoming garbage collectors; the tension with Newton steps.

A cell is a target word with one word of its source, or with NULL. The cells of many pairs are
concatenated in arrays, so that an iteration is a few array operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from regard.data.rows import Rows

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]
NULL_PROBABILITY = 0.08
_PRIOR_COUNT = 0.01  # of each pair of words (Dirichlet)
_UNSEEN = 1e-9  # probability of pairs of words that never cooccurred
_CHUNK_SIZE = 1_000_000  # cells
_MAX_CELLS = 200_000_000  # to train on, at eight bytes each


@dataclass(frozen=True)
class Aligner:
    """Parameters of one direction: alignment of target words to source words."""

    target_size: int  # size of the target vocabulary, NULL included
    known_keys: Ids  # keys of cooccurring words (see `_Cells.of`), ascending
    t: Floats  # t(target | source) of each key
    tension: float

    def align(self, source: Rows, target: Rows) -> Iterator[Ids]:
        """For each pair, the source position of each target word; -1: NULL."""
        for pairs in _chunks(source, target, np.arange(len(source))):
            cells = _Cells.of(source, target, pairs, self.target_size)
            best = cells.most_likely(self._joint(cells))
            yield from np.split(best, np.cumsum(target.lengths()[pairs])[:-1])

    def mean_log_probs(self, source: Rows, target: Rows) -> Floats:
        """For each pair, the mean log-prob of a target word, summed over its alignments.

        It is 0 for a pair without target words.
        """
        means = np.zeros(len(source))
        for pairs in _chunks(source, target, np.arange(len(source))):
            cells, lengths = _Cells.of(source, target, pairs, self.target_size), target.lengths()
            log_probs = np.log(np.add.reduceat(self._joint(cells), cells.rows))
            words = np.repeat(np.arange(len(pairs)), lengths[pairs])
            sums = np.bincount(words, log_probs, minlength=len(pairs))
            means[pairs] = sums / np.maximum(lengths[pairs], 1)
        return means

    def _joint(self, cells: _Cells) -> Floats:
        """The joint probability of each cell and its target word, given the source."""
        keys, inverse = np.unique(cells.keys, return_inverse=True)
        indices = np.minimum(np.searchsorted(self.known_keys, keys), len(self.known_keys) - 1)
        t = np.where(self.known_keys[indices] == keys, self.t[indices], _UNSEEN)
        joint: Floats = t[inverse] * cells.prior(self.tension)
        return joint


@dataclass(frozen=True)
class BidirectionalAligner:
    """Aligners of both directions."""

    forward: Aligner  # target words to source words
    backward: Aligner  # source words to target words

    @staticmethod
    def train(source: Rows, target: Rows) -> BidirectionalAligner:
        """Train both directions on pairs of sentences of ids."""
        return BidirectionalAligner(train_aligner(source, target), train_aligner(target, source))

    def align(self, source: Rows, target: Rows) -> Iterator[tuple[Ids, Ids]]:
        """For each pair, the source positions of target words, and vice versa."""
        yield from zip(
            self.forward.align(source, target), self.backward.align(target, source), strict=True
        )


def train_aligner(source: Rows, target: Rows, *, iterations: int = 5) -> Aligner:
    """Train an aligner on pairs of sentences of ids, or on an even sample of a huge corpus."""
    target_size = int(target.flat().max(initial=0)) + 2
    sizes = (source.lengths() + 1) * target.lengths()
    sampled = np.arange(0, len(source), max(1, -(-int(sizes.sum()) // _MAX_CELLS)))
    known_keys, chunks = _number_keys(
        _Cells.of(source, target, pairs, target_size) for pairs in _chunks(source, target, sampled)
    )
    t, tension = np.ones(len(known_keys)), 4.0
    for _ in range(iterations):
        counts, moments = np.zeros(len(known_keys)), np.zeros(3)
        for cells in chunks:
            prior = cells.prior(tension)
            posterior = cells.posterior(t[cells.keys] * prior)
            counts += np.bincount(cells.keys, posterior, minlength=len(known_keys))
            moments += cells.moments(prior, posterior)
        t = _maximize(counts, known_keys // target_size)
        tension = _newton_step(tension, *moments)
    return Aligner(target_size, known_keys, t, tension)


def _chunks(source: Rows, target: Rows, pairs: Ids) -> Iterator[Ids]:
    """Pairs in chunks of about `_CHUNK_SIZE` cells."""
    if len(pairs):
        sizes = np.cumsum((source.lengths()[pairs] + 1) * target.lengths()[pairs])
        yield from np.split(pairs, np.flatnonzero(np.diff(sizes // _CHUNK_SIZE)) + 1)


@dataclass(frozen=True)
class _Cells:
    """The cells of some pairs, by target word; NULL precedes the source words."""

    keys: NDArray[np.integer]  # source and target word of each cell as one number
    distances: NDArray[np.float32]  # from the diagonal
    rows: Ids  # index of the first cell of each target word
    widths: Ids  # number of cells of each target word

    @staticmethod
    def of(source: Rows, target: Rows, pairs: Ids, target_size: int) -> _Cells:
        """The cells of some pairs; a key is `source * target_size + target`, where 0 is NULL."""
        sources, targets = source.lengths()[pairs], target.lengths()[pairs]
        pair = np.repeat(np.arange(len(pairs)), targets)
        widths = sources[pair] + 1
        rows = np.cumsum(widths) - widths
        row = _range_within(targets)
        column = _range_within(widths)
        offsets = np.cumsum(sources) - sources
        source_words = np.append(_concatenate(source, pairs), -1) + 1  # never empty
        source_ids = source_words[np.repeat(offsets[pair] - 1, widths) + column]
        source_ids[rows] = 0
        target_ids = _concatenate(target, pairs) + 1
        target_ids[target_ids >= target_size] = 0  # unseen words; NULL is never a target
        source_ratio = (column - 0.5) / np.repeat(np.maximum(sources[pair], 1), widths)
        target_ratio = np.repeat((row + 0.5) / targets[pair], widths)
        return _Cells(
            source_ids * target_size + np.repeat(target_ids, widths),
            np.abs(source_ratio - target_ratio, dtype=np.float32),
            rows,
            widths,
        )

    def prior(self, tension: float) -> Floats:
        """The prior probability of each cell given its target position."""
        weights = np.exp(-tension * self.distances.astype(np.float64))
        weights[self.rows] = 0
        sums = np.add.reduceat(weights, self.rows)
        weights *= np.repeat((1 - NULL_PROBABILITY) / np.maximum(sums, _UNSEEN), self.widths)
        weights[self.rows] = NULL_PROBABILITY
        return weights

    def posterior(self, joint: Floats) -> Floats:
        """The posterior probability of each cell given its target word."""
        return joint / np.repeat(np.add.reduceat(joint, self.rows), self.widths)

    def moments(self, prior: Floats, posterior: Floats) -> Floats:
        """Expected distances from the diagonal under posterior and prior, and the prior's variance.

        All are sums over target words, weighted by the probability of not being aligned to NULL.
        """
        not_null = 1 - posterior[self.rows]
        posterior, prior = posterior.copy(), prior / (1 - NULL_PROBABILITY)
        posterior[self.rows] = prior[self.rows] = 0
        mean = np.add.reduceat(prior * self.distances, self.rows)
        square = np.add.reduceat(prior * self.distances**2, self.rows)
        return np.array(
            [posterior @ self.distances, not_null @ mean, not_null @ (square - mean**2)]
        )

    def most_likely(self, joint: Floats) -> Ids:
        """The best source position of each target word, the first of equals; -1: NULL."""
        highest = np.repeat(np.maximum.reduceat(joint, self.rows), self.widths)
        cells = np.flatnonzero(joint == highest)
        return cells[np.searchsorted(cells, self.rows)] - self.rows - 1


def _concatenate(side: Rows, pairs: Ids) -> Ids:
    """The concatenated words of some sentences."""
    return np.concatenate([side[index] for index in pairs.tolist()]).astype(np.int64)


def _range_within(lengths: Ids) -> Ids:
    """0, 1, 2, ... within each row."""
    ends = np.cumsum(lengths)
    return np.arange(lengths.sum()) - np.repeat(ends - lengths, lengths)


def _number_keys(chunks: Iterable[_Cells]) -> tuple[Ids, list[_Cells]]:
    """All keys, ascending, and the cells with each key replaced by its index."""
    keys, cells = [], []
    for chunk in chunks:  # one by one, since the keys take most of the memory
        chunk_keys, numbers = np.unique(chunk.keys, return_inverse=True)
        keys.append(chunk_keys)
        cells.append(replace(chunk, keys=numbers.astype(np.int32)))
    known_keys = np.unique(np.concatenate(keys))
    for index, chunk_keys in enumerate(keys):
        numbers = np.asarray(np.searchsorted(known_keys, chunk_keys), dtype=np.int32)
        cells[index] = replace(cells[index], keys=numbers[cells[index].keys])
    return known_keys, cells


def _maximize(counts: Floats, sources: Ids) -> Floats:
    """M-step: t from expected counts, with a Dirichlet prior (variational Bayes)."""
    counts = counts + _PRIOR_COUNT
    totals: Floats = np.bincount(sources, counts).astype(np.float64)
    t: Floats = np.exp(_digamma(counts) - _digamma(totals)[sources])
    return t


def _digamma(values: Floats) -> Floats:
    import torch  # `regard prepare` needs no aligner unless it annotates terms

    result: Floats = torch.special.digamma(torch.from_numpy(values)).numpy()
    return result


def _newton_step(tension: float, distance: float, expected: float, variance: float) -> float:
    """A step towards the tension whose prior has the expected distance of the posterior."""
    step = (expected - distance) / max(variance, 1e-12)
    return float(np.clip(tension + step, max(0.1, tension / 2), min(30.0, tension * 2)))
