"""Running text as rows: the next token is predicted, or masked tokens are.

A row lies within one document. A document that is longer than a row is cut into pieces, anew in
each epoch: its first piece is shorter by a number that is drawn for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.batch import Batch, SentencePairBatch
from regard.data.loader import Examples
from regard.data.masking import Ids, Masker
from regard.data.ragged import Lengths, Ragged
from regard.data.rows import Rows
from regard.data.sampling import Indices
from regard.text.special import SPECIAL

Places = NDArray[np.int64]


@dataclass(frozen=True)
class Pieces:
    """Where pieces begin and end among the ids of a text, and which of them begin a document."""

    begins: Places
    ends: Places
    firsts: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.begins)

    def lengths(self) -> Places:
        """How many ids each has."""
        return self.ends - self.begins


def cut(
    documents: Rows,
    longest: int,
    generator: np.random.Generator | None = None,
    *,
    ends: bool = True,
) -> Pieces:
    """All pieces of a text, none with more than `longest` ids; `ends`: with the ends of documents.

    Without a generator, all pieces of a document but its last are that long.
    """
    lengths = documents.lengths()
    begin = np.cumsum(lengths) - lengths
    lengths = lengths if ends else lengths - 1
    missing = np.zeros_like(lengths)  # of the first piece
    if generator is not None:
        missing = generator.integers(longest, size=len(lengths)) * (lengths > longest)
    counts = -(-(lengths + missing) // longest)
    document = np.repeat(np.arange(len(lengths)), counts)
    number = np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts)
    first = number * longest - missing[document]
    return Pieces(
        begin[document] + np.maximum(first, 0),
        begin[document] + np.minimum(first + longest, lengths[document]),
        first <= 0,
    )


class CausalDataset:
    """Pieces of documents; what is read at each position is the token before it."""

    def __init__(self, documents: Rows, context: int, start: int, seed: int = 0) -> None:
        self.documents, self.start = documents, start
        self._context, self._seed = context, seed

    def examples(self, epoch: int | None) -> CausalExamples:
        """The pieces of an epoch, EOS of documents included."""
        draw = None if epoch is None else np.random.default_rng([self._seed, epoch, 1])
        return CausalExamples(self, cut(self.documents, self._context, draw))

    def empty_batch(self) -> Batch:
        """A batch without a target."""
        return Batch.empty()


class CausalExamples(Examples):
    """The pieces of one epoch."""

    def __init__(self, dataset: CausalDataset, pieces: Pieces) -> None:
        super().__init__(pieces.lengths())
        self._dataset, self._pieces = dataset, pieces

    def batch(self, indices: Indices, whole: Indices) -> Batch:
        """The token before a piece is read, too, unless the piece begins a document."""
        ids, pieces = self._dataset.documents.flat(), self._pieces
        begins, ends = pieces.begins[indices], pieces.ends[indices]
        sizes = ends - begins
        targets = np.concatenate([ids[b:e] for b, e in zip(begins, ends, strict=True)])
        inputs = np.roll(targets, 1).astype(np.int64)
        inputs[np.cumsum(sizes) - sizes] = np.where(
            pieces.firsts[indices], self._dataset.start, ids[np.maximum(begins - 1, 0)]
        )
        lengths = Lengths.of(sizes.tolist())
        rows = torch.from_numpy(inputs), torch.from_numpy(targets.astype(np.int64))
        return Batch(Ragged(rows[0], lengths), Ragged(rows[1], lengths))


class MaskedDataset:
    """Pieces of documents between BOS and EOS, some tokens of which are masked.

    With `sentence_pairs`, a row is `BOS A EOS B EOS`; in half of the rows, B is from elsewhere.
    """

    def __init__(
        self,
        documents: Rows,
        context: int,
        start: int,
        masker: Masker,
        *,
        seed: int = 0,
        sentence_pairs: bool = False,
    ) -> None:
        self.documents, self.start, self.masker = documents, start, masker
        self.sentence_pairs = sentence_pairs
        self._context, self._seed = context, seed

    def examples(self, epoch: int | None) -> MaskedExamples:
        """The pieces of an epoch, without EOS of documents."""
        special_tokens = 3 if self.sentence_pairs else 2
        moment = None if not self.masker.dynamic else epoch
        draw = None if moment is None else np.random.default_rng([self._seed, moment, 1])
        pieces = cut(self.documents, self._context - special_tokens, draw, ends=False)
        key = self._seed, 0 if moment is None else moment + 1
        return MaskedExamples(self, pieces, key, special_tokens)

    def empty_batch(self) -> Batch:
        """A batch without a target."""
        return Batch.empty()


class _Row(NamedTuple):
    read: Ids
    wanted: Ids
    segments: Ids
    random_next: bool  # the second piece does not follow the first


class MaskedExamples(Examples):
    """The pieces of one epoch."""

    def __init__(
        self, dataset: MaskedDataset, pieces: Pieces, key: tuple[int, int], special_tokens: int
    ) -> None:
        super().__init__(pieces.lengths() + special_tokens)
        self._dataset, self._pieces, self._key = dataset, pieces, key

    def batch(self, indices: Indices, whole: Indices) -> Batch:
        """Some rows; each is masked by a generator of its own, keyed by seed, epoch and place."""
        rows = [self._row(index) for index in indices]
        read, wanted, segments = (
            torch.from_numpy(np.concatenate([getattr(row, name) for row in rows]))
            for name in ("read", "wanted", "segments")
        )
        lengths = Lengths.of([len(row.read) for row in rows])
        sides = Ragged(read, lengths), Ragged(wanted, lengths)
        filler = int((wanted == SPECIAL.pad).sum())
        if not self._dataset.sentence_pairs:
            return Batch(*sides, filler)
        labels = torch.tensor([int(row.random_next) for row in rows])
        return SentencePairBatch(*sides, filler, segments=segments, next_sentence_labels=labels)

    def _row(self, index: int) -> _Row:
        generator = np.random.default_rng([*self._key, int(self._pieces.begins[index])])
        piece, random_next = self._piece(index), False
        parts = [piece]
        if self._dataset.sentence_pairs and len(piece) > 1:
            parts, random_next = self._sentence_pair(piece, generator)
        start, end = np.array([self._dataset.start]), np.array([SPECIAL.end])
        whole = np.concatenate([start, *(row for part in parts for row in (part, end))])
        segments = np.zeros(len(whole), dtype=np.int64)
        segments[len(parts[0]) + 2 :] = 1
        return _Row(*self._dataset.masker.hide(whole, generator), segments, random_next)

    def _sentence_pair(self, piece: Ids, generator: np.random.Generator) -> tuple[list[Ids], bool]:
        """A piece in two parts, or its first part and as much from elsewhere."""
        middle = int(generator.integers(1, len(piece)))
        random_next = bool(generator.random() < 0.5)
        other = self._piece(int(generator.integers(len(self._pieces))))
        second = other[: len(piece) - middle] if random_next else piece[middle:]
        return [piece[:middle], second], random_next

    def _piece(self, index: int) -> Ids:
        ids: NDArray[np.integer] = self._dataset.documents.flat()
        return ids[self._pieces.begins[index] : self._pieces.ends[index]].astype(np.int64)
