"""Contiguous streams of plain text, for models with segment recurrence (Transformer-XL, XLNet).

A text is arranged in B rows of equal length, and a batch is the next segment of each row, so that
it continues the rows of the previous batch. In each epoch, the text is rotated by a random offset.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.batch import Batch, PermutedBatch, StreamBatch
from regard.data.loader import Dataset, Examples
from regard.data.ragged import Lengths, Ragged
from regard.data.rows import Rows
from regard.data.sampling import Indices
from regard.text.special import SPECIAL

Positions = NDArray[np.int64]
_VALIDATION_SEGMENTS = 16  # minimum per row, so that memory is used


@dataclass(frozen=True)
class Streams:
    """A text in rows of equal length; fewer than `rows` tokens are left over."""

    ids: NDArray[np.integer]
    rows: int
    segment: int
    first: int = 0  # offset of the first token

    @property
    def length(self) -> int:
        """The number of tokens per row."""
        return len(self.ids) // self.rows

    def __len__(self) -> int:
        return -(-self.length // self.segment)

    def positions(self, number: int) -> Positions:
        """The positions of a segment's tokens in the text; the last may be shorter. (B, T)"""
        begin = number * self.segment
        within = np.arange(begin, min(begin + self.segment, self.length))
        rows = self.first + self.length * np.arange(self.rows)[:, None] + within
        return rows % len(self.ids)


class StreamDataset(Dataset):
    """Documents as streams, for causal language models."""

    def __init__(
        self, documents: Rows, segment: int, batch_tokens: int, bos: int, seed: int = 0
    ) -> None:
        self._ids, self._segment = documents.flat(), segment
        self._batch_tokens, self._bos, self._seed = batch_tokens, bos, seed

    def examples(self, epoch: int | None) -> Examples:
        """The segments of an epoch, in order."""
        streams, key = Streams(self._ids, self._rows(_VALIDATION_SEGMENTS), self._segment), (0, 0)
        if epoch is not None:
            generator, key = np.random.default_rng([self._seed, epoch, 1]), (self._seed, epoch + 1)
            first = int(generator.integers(len(self._ids)))
            streams = Streams(self._ids, self._rows(), self._segment, first)
        tokens = np.full(len(streams), streams.rows * streams.segment)
        return _Segments(tokens, collate=partial(self._batch, streams, key))

    def _batch(
        self, streams: Streams, key: tuple[int, int], indices: Indices, whole: Indices
    ) -> Batch:
        """A segment of all rows; the input is BOS where a document begins."""
        (number,) = indices.tolist()
        positions = streams.positions(number)
        previous = streams.ids[positions - 1].astype(np.int64)
        source = np.where(previous == SPECIAL.eos, self._bos, previous)
        tokens = streams.ids[positions].astype(np.int64)
        return StreamBatch(_rows(source), _rows(tokens), continues=number > 0)

    def _rows(self, segments: int = 1) -> int:
        """The number of rows that fill a batch, if each has at least `segments` segments."""
        tokens = min(self._batch_tokens, len(self._ids) // segments)
        return max(1, tokens // self._segment)


class PermutedDataset(StreamDataset):
    """Documents as streams, for permutation language models: 1 of K tokens is predicted."""

    def __init__(
        self,
        documents: Rows,
        segment: int,
        batch_tokens: int,
        partial_prediction_k: int,
        seed: int = 0,
    ) -> None:
        super().__init__(documents, segment, batch_tokens, SPECIAL.bos, seed)
        self._partial_prediction_k = partial_prediction_k

    def _batch(
        self, streams: Streams, key: tuple[int, int], indices: Indices, whole: Indices
    ) -> Batch:
        """A segment of all rows; `key` (seed and epoch) determines the prediction order."""
        (number,) = indices.tolist()
        positions = streams.positions(number)
        orders = [
            sample_prediction_order(
                len(row), self._partial_prediction_k, np.random.default_rng([*key, 2, row[0]])
            )
            for row in positions
        ]
        tokens = streams.ids[positions].astype(np.int64)
        return permuted_batch(tokens, np.stack(orders), continues=number > 0)


class _Segments(Examples):
    """The segments of one epoch; a batch is one of them."""

    def shuffled_batches(self, max_tokens: int, seed: int, epoch: int) -> list[Indices]:
        """All segments, in order."""
        return self.ordered_batches(max_tokens)

    def ordered_batches(self, max_tokens: int) -> list[Indices]:
        """All segments, in order."""
        return [np.array([number]) for number in range(len(self.source))]


def sample_prediction_order(
    length: int, partial_prediction_k: int, generator: np.random.Generator
) -> Positions:
    """Prediction ranks: 1, 2, ... for the last positions of a random permutation, 0 for others."""
    predicted = generator.permutation(length)[-max(1, length // partial_prediction_k) :]
    ranks = np.zeros(length, dtype=np.int64)
    ranks[predicted] = 1 + np.arange(len(predicted))
    return ranks


def permuted_batch(tokens: Positions, ranks: Positions, *, continues: bool) -> PermutedBatch:
    """A batch of tokens (B, T); those with a rank above 0 are predicted, in this order."""
    labels = np.where(ranks > 0, tokens, SPECIAL.pad)
    return PermutedBatch(
        _rows(tokens),
        _rows(labels),
        filler=int((labels == SPECIAL.pad).sum()),
        continues=continues,
        ranks=torch.from_numpy(ranks.ravel()),
    )


def _rows(tokens: Positions) -> Ragged:
    return Ragged(torch.from_numpy(tokens.ravel()), Lengths.of([tokens.shape[1]] * len(tokens)))
