"""Running text as rows: the next token is predicted, or masked tokens are.

A row lies within one document. A document that is longer than a row is cut into pieces, anew in
each epoch: its first piece is shorter by a number that is drawn for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.batch import Batch, SentencePairBatch
from regard.data.loader import Dataset, Examples
from regard.data.masking import Ids, Masker
from regard.data.ragged import Lengths, Ragged
from regard.data.rows import Rows
from regard.data.sampling import Indices
from regard.text.special import SPECIAL

Places = NDArray[np.int64]


@dataclass(frozen=True)
class Pieces:
    """Where pieces begin and end among the ids of a text, and which of them begin a document."""

    ids: NDArray[np.integer]
    begins: Places
    ends: Places
    firsts: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.begins)

    def __getitem__(self, index: int) -> Ids:
        return self.ids[self.begins[index] : self.ends[index]].astype(np.int64)

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
        documents.flat(),
        begin[document] + np.maximum(first, 0),
        begin[document] + np.minimum(first + longest, lengths[document]),
        first <= 0,
    )


class CausalDataset(Dataset):
    """Pieces of documents; what is read at each position is the token before it."""

    def __init__(self, documents: Rows, context: int, start: int, seed: int = 0) -> None:
        self._documents, self._context, self._start = documents, context, start
        self._seed = seed

    def examples(self, epoch: int | None) -> Examples:
        """The pieces of an epoch, EOS of documents included."""
        draw = None if epoch is None else np.random.default_rng([self._seed, epoch, 1])
        pieces = cut(self._documents, self._context, draw)
        return Examples(pieces.lengths(), collate=partial(self._batch, pieces))

    def _batch(self, pieces: Pieces, indices: Indices, whole: Indices) -> Batch:
        """The token before a piece is read, too, unless the piece begins a document."""
        ids, begins, ends = pieces.ids, pieces.begins[indices], pieces.ends[indices]
        sizes = ends - begins
        rows = [ids[begin:end] for begin, end in zip(begins, ends, strict=True)]
        targets = np.concatenate(rows).astype(np.int64)
        inputs = np.roll(targets, 1)
        inputs[np.cumsum(sizes) - sizes] = np.where(
            pieces.firsts[indices], self._start, ids[np.maximum(begins - 1, 0)]
        )
        lengths = Lengths.of(sizes.tolist())
        source, target = (Ragged(torch.from_numpy(row), lengths) for row in (inputs, targets))
        return Batch(source, target)


class MaskedDataset(Dataset):
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
        self._documents, self._context, self._start = documents, context, start
        self._masker, self._seed, self._sentence_pairs = masker, seed, sentence_pairs

    def examples(self, epoch: int | None) -> Examples:
        """The pieces of an epoch, without EOS of documents."""
        special_tokens = 3 if self._sentence_pairs else 2
        moment = None if not self._masker.dynamic else epoch
        draw = None if moment is None else np.random.default_rng([self._seed, moment, 1])
        pieces = cut(self._documents, self._context - special_tokens, draw, ends=False)
        key = self._seed, 0 if moment is None else moment + 1
        return Examples(
            pieces.lengths() + special_tokens, collate=partial(self._batch, pieces, key)
        )

    def _batch(
        self, pieces: Pieces, key: tuple[int, int], indices: Indices, whole: Indices
    ) -> Batch:
        """Some rows; each is masked by a generator of its own, keyed by seed, epoch and place."""
        rows = [self._row(pieces, key, index) for index in indices]
        read, wanted, segments = (
            torch.from_numpy(np.concatenate([row[part] for row in rows])) for part in range(3)
        )
        lengths = Lengths.of([len(row.read) for row in rows])
        sides = Ragged(read, lengths), Ragged(wanted, lengths)
        filler = int((wanted == SPECIAL.pad).sum())
        if not self._sentence_pairs:
            return Batch(*sides, filler)
        labels = torch.tensor([int(row.random_next) for row in rows])
        return SentencePairBatch(*sides, filler, segments=segments, next_sentence_labels=labels)

    def _row(self, pieces: Pieces, key: tuple[int, int], index: int) -> _Row:
        generator = np.random.default_rng([*key, int(pieces.begins[index])])
        piece, random_next = pieces[index], False
        parts = [piece]
        if self._sentence_pairs and len(piece) > 1:  # in two parts, or with as much from elsewhere
            middle = int(generator.integers(1, len(piece)))
            random_next = bool(generator.random() < 0.5)
            other = pieces[int(generator.integers(len(pieces)))]
            parts = [
                piece[:middle],
                other[: len(piece) - middle] if random_next else piece[middle:],
            ]
        start, end = np.array([self._start]), np.array([SPECIAL.end])
        whole = np.concatenate([start, *(row for part in parts for row in (part, end))])
        segments = np.zeros(len(whole), dtype=np.int64)
        segments[len(parts[0]) + 2 :] = 1
        return _Row(*self._masker.hide(whole, generator), segments, random_next)


class _Row(NamedTuple):
    read: Ids
    wanted: Ids
    segments: Ids
    random_next: bool  # the second piece does not follow the first
