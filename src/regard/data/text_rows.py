"""What models of running text read, and what they should write at each place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.masking import Ids, Masker
from regard.data.pieces import Pieces, cut
from regard.data.ragged import Batch, Doubles, Lengths, Ragged
from regard.data.sampling import Indices
from regard.data.store import Content, Text
from regard.text.special import SPECIAL


@dataclass(frozen=True)
class TextTask:
    """What a model makes of running text, or of words and texts with labels."""

    objective: Literal["causal", "masked", "permuted", "tagged", "labelled"]
    context: int  # tokens that are read at once
    start: int = SPECIAL.start  # the mark before a document
    mask: int = SPECIAL.unknown  # what stands for a hidden word
    doubles: bool = False  # whether a row has two pieces, which may be strangers
    streams: bool = False  # whether a batch goes on where the one before it ended
    one_in: int = 1  # permuted: of so many tokens one is asked for
    spelled: bool = False  # tagged: whether the bytes of words are read, too

    @property
    def content(self) -> Content:
        """What it is made of."""
        return self.objective if self.objective in ("tagged", "labelled") else "text"


class TextRows(Protocol):
    """A text as rows for some task."""

    frame: int  # marks around each piece

    def pieces(self, epoch: int | None) -> Pieces:
        """The pieces of an epoch; None: those of a validation."""
        ...

    def batch(self, pieces: Pieces, indices: Indices, epoch: int | None) -> Batch:
        """Some of them as a batch."""
        ...

    def nothing(self) -> Batch:
        """A batch that nothing is learned from: the share of a process for which none is left."""
        ...


class CausalRows:
    """What is read at each place is the token before it."""

    frame = 0

    def __init__(self, text: Text, task: TextTask, seed: int) -> None:
        self._text, self._task, self._seed = text, task, seed

    def pieces(self, epoch: int | None) -> Pieces:
        """The pieces of an epoch, document ends included."""
        draw = None if epoch is None else np.random.default_rng([self._seed, epoch, 1])
        return cut(self._text.documents, self._task.context, draw)

    def batch(self, pieces: Pieces, indices: Indices, epoch: int | None) -> Batch:
        """What stands before a piece is read, too, unless it begins a document."""
        ids = self._text.documents.flat()
        begins, ends = pieces.begins[indices], pieces.ends[indices]
        sizes = ends - begins
        targets = np.concatenate([ids[b:e] for b, e in zip(begins, ends, strict=True)])
        inputs = np.roll(targets, 1).astype(np.int64)
        inputs[np.cumsum(sizes) - sizes] = np.where(
            pieces.firsts[indices], self._task.start, ids[np.maximum(begins - 1, 0)]
        )
        lengths = Lengths.of(sizes.tolist())
        rows = torch.from_numpy(inputs), torch.from_numpy(targets.astype(np.int64))
        return Batch(Ragged(rows[0], lengths), Ragged(rows[1], lengths))

    def nothing(self) -> Batch:
        """A mark, and nothing to be written after it."""
        return Batch.nothing()


class MaskedRows:
    """Pieces between a start and an end mark, of which some words are hidden.

    As doubles, a row is `start A end B end`; every other time, B is a piece from elsewhere.
    """

    def __init__(
        self, text: Text, task: TextTask, masker: Masker, seed: int, *, dynamic: bool
    ) -> None:
        self._text, self._task, self._seed = text, task, seed
        self._masker, self._dynamic = masker, dynamic
        self.frame = 3 if task.doubles else 2

    def pieces(self, epoch: int | None) -> Pieces:
        """The pieces of an epoch, without the ends of documents."""
        draw = None
        if epoch is not None and self._dynamic:
            draw = np.random.default_rng([self._seed, epoch, 1])
        return cut(self._text.documents, self._task.context - self.frame, draw, ends=False)

    def batch(self, pieces: Pieces, indices: Indices, epoch: int | None) -> Batch:
        """Some rows; each is drawn by its own generator, keyed by seed, epoch and place."""
        rows = [
            self._row(pieces, index, self._generator(pieces, index, epoch)) for index in indices
        ]
        read, wanted, segments = (
            torch.from_numpy(np.concatenate([getattr(row, name) for row in rows]))
            for name in ("read", "wanted", "segments")
        )
        lengths = Lengths.of([len(row.read) for row in rows])
        doubles = None
        if self._task.doubles:
            doubles = Doubles(segments, torch.tensor([int(row.strange) for row in rows]))
        filler = int((wanted == SPECIAL.pad).sum())
        return Batch(Ragged(read, lengths), Ragged(wanted, lengths), filler, doubles=doubles)

    def nothing(self) -> Batch:
        """A mark, and no hidden word."""
        return Batch.nothing()

    def _generator(self, pieces: Pieces, index: int, epoch: int | None) -> np.random.Generator:
        moment = 0 if epoch is None or not self._dynamic else epoch + 1
        return np.random.default_rng([self._seed, moment, int(pieces.begins[index])])

    def _row(self, pieces: Pieces, index: int, generator: np.random.Generator) -> _Row:
        piece, strange = self._piece(pieces, index), False
        parts = [piece]
        if self._task.doubles and len(piece) > 1:
            parts, strange = self._double(pieces, piece, generator)
        start, end = np.array([self._task.start]), np.array([SPECIAL.end])
        whole = np.concatenate([start, *(part for one in parts for part in (one, end))])
        segments = np.zeros(len(whole), dtype=np.int64)
        segments[len(parts[0]) + 2 :] = 1
        return _Row(*self._masker.hide(whole, generator), segments, strange)

    def _double(
        self, pieces: Pieces, piece: Ids, generator: np.random.Generator
    ) -> tuple[list[Ids], bool]:
        """A piece in two, or its first half and as much from elsewhere."""
        middle = int(generator.integers(1, len(piece)))
        strange = bool(generator.random() < 0.5)
        other = self._piece(pieces, int(generator.integers(len(pieces))))
        parts = [piece[:middle], other[: len(piece) - middle] if strange else piece[middle:]]
        return parts, strange

    def _piece(self, pieces: Pieces, index: int) -> Ids:
        ids: NDArray[np.integer] = self._text.documents.flat()
        return ids[pieces.begins[index] : pieces.ends[index]].astype(np.int64)


@dataclass(frozen=True)
class _Row:
    read: Ids
    wanted: Ids
    segments: Ids
    strange: bool
