"""Running text as streams that are read side by side, segment after segment.

A text is laid out in B rows of equal length, and a batch has the next tokens of each. So a row of
a batch continues the same row of the batch before, which is what segment recurrence needs. In each
epoch the rows begin elsewhere: the text is a ring, cut at a place that is drawn.
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

Places = NDArray[np.int64]
_VALIDATION_SEGMENTS = 16  # of a row at least, so that there is something to remember


@dataclass(frozen=True)
class Streams:
    """A text in rows of equal length; what is left over is less than a token for each."""

    ids: NDArray[np.integer]
    rows: int
    segment: int
    first: int = 0  # where the ring is cut

    @property
    def length(self) -> int:
        """Tokens of a row."""
        return len(self.ids) // self.rows

    def __len__(self) -> int:
        return -(-self.length // self.segment)

    def places(self, number: int) -> Places:
        """Where the tokens of a segment stand in the text; the last may be shorter. (B, T)"""
        begin = number * self.segment
        within = np.arange(begin, min(begin + self.segment, self.length))
        rows = self.first + self.length * np.arange(self.rows)[:, None] + within
        return rows % len(self.ids)


class StreamDataset(Dataset):
    """Documents as streams; the next token is predicted at each position."""

    def __init__(
        self, documents: Rows, segment: int, batch_tokens: int, start: int, seed: int = 0
    ) -> None:
        self._ids, self._segment = documents.flat(), segment
        self._batch_tokens, self._start, self._seed = batch_tokens, start, seed

    def examples(self, epoch: int | None) -> Examples:
        """The segments of an epoch, in order."""
        streams, key = Streams(self._ids, self._rows(_VALIDATION_SEGMENTS), self._segment), (0, 0)
        if epoch is not None:
            draw, key = np.random.default_rng([self._seed, epoch, 1]), (self._seed, epoch + 1)
            first = int(draw.integers(len(self._ids)))
            streams = Streams(self._ids, self._rows(), self._segment, first)
        tokens = np.full(len(streams), streams.rows * streams.segment)
        return _Segments(tokens, collate=partial(self._batch, streams, key))

    def _batch(
        self, streams: Streams, key: tuple[int, int], indices: Indices, whole: Indices
    ) -> Batch:
        """A segment of all rows; BOS is read where a document begins."""
        (number,) = indices.tolist()
        places = streams.places(number)
        before = streams.ids[places - 1].astype(np.int64)
        source = np.where(before == SPECIAL.end, self._start, before)
        tokens = streams.ids[places].astype(np.int64)
        return StreamBatch(_rows(source), _rows(tokens), continues=number > 0)

    def _rows(self, segments: int = 1) -> int:
        """As many rows as a batch holds, if each has so many segments at least."""
        tokens = min(self._batch_tokens, len(self._ids) // segments)
        return max(1, tokens // self._segment)


class PermutedDataset(StreamDataset):
    """Documents as streams; of so many tokens one is predicted, in a drawn order."""

    def __init__(
        self, documents: Rows, segment: int, batch_tokens: int, one_in: int, seed: int = 0
    ) -> None:
        super().__init__(documents, segment, batch_tokens, SPECIAL.start, seed)
        self._one_in = one_in

    def _batch(
        self, streams: Streams, key: tuple[int, int], indices: Indices, whole: Indices
    ) -> Batch:
        """A segment of all rows; the key, seed and epoch, decides which tokens are predicted."""
        (number,) = indices.tolist()
        places = streams.places(number)
        orders = [
            drawn_order(len(row), self._one_in, np.random.default_rng([*key, 2, row[0]]))
            for row in places
        ]
        tokens = streams.ids[places].astype(np.int64)
        return permuted_batch(tokens, np.stack(orders), continues=number > 0)


class _Segments(Examples):
    """The segments of one epoch; a batch is one of them."""

    def sampled(self, budget: int, seed: int, epoch: int) -> list[Indices]:
        """All segments, in order."""
        return self.in_order(budget)

    def in_order(self, budget: int) -> list[Indices]:
        """All segments, in order."""
        return [np.array([number]) for number in range(len(self.source))]


def drawn_order(length: int, one_in: int, generator: np.random.Generator) -> Places:
    """A rank for each place: the last of a permutation are asked for, 1 first; 0 is seen by all."""
    asked = generator.permutation(length)[-max(1, length // one_in) :]
    ranks = np.zeros(length, dtype=np.int64)
    ranks[asked] = 1 + np.arange(len(asked))
    return ranks


def permuted_batch(tokens: Places, ranks: Places, *, continues: bool) -> PermutedBatch:
    """Tokens (B, T), of which those with a rank above 0 are predicted, in this order."""
    wanted = np.where(ranks > 0, tokens, SPECIAL.pad)
    return PermutedBatch(
        _rows(tokens),
        _rows(wanted),
        filler=int((wanted == SPECIAL.pad).sum()),
        continues=continues,
        ranks=torch.from_numpy(ranks.ravel()),
    )


def _rows(tokens: Places) -> Ragged:
    return Ragged(torch.from_numpy(tokens.ravel()), Lengths.of([tokens.shape[1]] * len(tokens)))
