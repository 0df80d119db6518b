"""Running text as streams that are read side by side, segment after segment.

A text is laid out in B rows of equal length, and a batch has the next tokens of each. So a row of
a batch goes on where the same row of the batch before ended, which is what a memory needs. In each
epoch the rows begin elsewhere: the text is a ring, cut at a place that is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.loader import DataConfig
from regard.data.ragged import Batch, Lengths, Ragged
from regard.data.sampling import Position, Turn, endless
from regard.data.store import Store, Text
from regard.data.text_loader import refuse_what_is_for_pairs
from regard.data.text_rows import TextTask
from regard.text.special import SPECIAL

Places = NDArray[np.int64]
_LONG = 16  # segments of a row in validation, at least, so that there is something to remember


@dataclass(frozen=True)
class Streams:
    """A text in rows of equal length; what is left over is less than a token for each."""

    text: Text
    rows: int
    segment: int
    first: int = 0  # where the ring is cut

    @property
    def length(self) -> int:
        """Tokens of a row."""
        return len(self.text.documents.flat()) // self.rows

    def __len__(self) -> int:
        return -(-self.length // self.segment)

    def places(self, number: int) -> Places:
        """Where the tokens of a segment stand in the text; the last may be shorter. (B, T)"""
        begin = number * self.segment
        within = np.arange(begin, min(begin + self.segment, self.length))
        rows = self.first + self.length * np.arange(self.rows)[:, None] + within
        return rows % len(self.text.documents.flat())


class StreamLoader:
    """The training part of a text store as an endless row of batches that go on."""

    def __init__(self, store: Store, config: DataConfig, task: TextTask, *, seed: int) -> None:
        refuse_what_is_for_pairs(config, task)
        self._text = store.text("train")
        self._task = task
        self._rows = rows_for(self._text, config, task.context)
        self._seed = seed

    def batches(
        self, position: Position, turn: Turn | None = None
    ) -> Iterator[tuple[Position, Batch]]:
        """Batches from a position on, or those of a turn, each with the position after it."""
        turn = turn or Turn()
        for after, planned in turn.among(endless(position, self._planned)):
            streams, number, epoch = planned
            key = self._seed, epoch + 1
            yield after, stream_batch(streams, number, self._task, key)

    def _planned(self, epoch: int) -> list[tuple[Streams, int, int]]:
        draw = np.random.default_rng([self._seed, epoch, 1])
        first = int(draw.integers(len(self._text.documents.flat())))
        streams = Streams(self._text, self._rows, self._task.context, first)
        return [(streams, number, epoch) for number in range(len(streams))]


def rows_for(text: Text, config: DataConfig, segment: int, shortest: int = 1) -> int:
    """As many rows as a batch holds, if each has so many segments at least."""
    tokens = len(text.documents.flat())
    return max(1, min(config.batch_tokens, tokens // shortest) // segment)


def stream_in_order(text: Text, config: DataConfig, task: TextTask) -> Iterator[Batch]:
    """All of a text but for less than a token a row: for validation."""
    streams = Streams(text, rows_for(text, config, task.context, _LONG), task.context)
    for number in range(len(streams)):
        yield stream_batch(streams, number, task)


def stream_batch(
    streams: Streams, number: int, task: TextTask, key: Sequence[int] = (0, 0)
) -> Batch:
    """A segment of all rows; the key, seed and epoch, decides what is drawn."""
    ids = streams.text.documents.flat()
    places = streams.places(number)
    tokens = ids[places].astype(np.int64)
    if task.objective == "permuted":
        orders = [
            drawn_order(len(row), task.one_in, np.random.default_rng([*key, 2, row[0]]))
            for row in places
        ]
        return permuted_batch(tokens, np.stack(orders), continues=number > 0)
    before = ids[places - 1].astype(np.int64)
    source = np.where(before == SPECIAL.end, task.start, before)  # where a document begins
    return Batch(_rows(source), _rows(tokens), continues=number > 0)


def drawn_order(length: int, one_in: int, generator: np.random.Generator) -> Places:
    """A rank for each place: the last of a permutation are asked for, 1 first; 0 is seen by all."""
    asked = generator.permutation(length)[-max(1, length // one_in) :]
    ranks = np.zeros(length, dtype=np.int64)
    ranks[asked] = 1 + np.arange(len(asked))
    return ranks


def permuted_batch(tokens: Places, ranks: Places, *, continues: bool) -> Batch:
    """Tokens (B, T), of which those with a rank above 0 should be found, in this order."""
    wanted = np.where(ranks > 0, tokens, SPECIAL.pad)
    return Batch(
        _rows(tokens),
        _rows(wanted),
        filler=int((wanted == SPECIAL.pad).sum()),
        continues=continues,
        ranks=torch.from_numpy(ranks.ravel()),
    )


def _rows(tokens: Places) -> Ragged:
    return Ragged(torch.from_numpy(tokens.ravel()), Lengths.of([tokens.shape[1]] * len(tokens)))
