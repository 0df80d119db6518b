"""Datasets of plain text for causal and masked language models.

A row lies within one document. Longer documents are split into chunks, differently in each epoch:
the first chunk is shorter by a random number of tokens.
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

Positions = NDArray[np.int64]


@dataclass(frozen=True)
class Chunks:
    """Offsets of chunks in the ids of a text, and whether each is the first of its document."""

    ids: NDArray[np.integer]
    begins: Positions
    ends: Positions
    firsts: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.begins)

    def __getitem__(self, index: int) -> Ids:
        return self.ids[self.begins[index] : self.ends[index]].astype(np.int64)

    def lengths(self) -> Positions:
        """The number of ids of each chunk."""
        return self.ends - self.begins


def chunk_documents(
    documents: Rows,
    max_length: int,
    generator: np.random.Generator | None = None,
    *,
    eos: bool = True,
) -> Chunks:
    """Chunks of at most `max_length` ids; `eos`: whether they include EOS of documents.

    Without a generator, all chunks of a document except the last have that length.
    """
    lengths = documents.lengths()
    begin = np.cumsum(lengths) - lengths
    lengths = lengths if eos else lengths - 1
    shift = np.zeros_like(lengths)  # by which the first chunk of a document is shorter
    if generator is not None:
        shift = generator.integers(max_length, size=len(lengths)) * (lengths > max_length)
    counts = -(-(lengths + shift) // max_length)
    document = np.repeat(np.arange(len(lengths)), counts)
    number = np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts)
    first = number * max_length - shift[document]
    return Chunks(
        documents.flat(),
        begin[document] + np.maximum(first, 0),
        begin[document] + np.minimum(first + max_length, lengths[document]),
        first <= 0,
    )


class CausalDataset(Dataset):
    """Chunks of documents for causal language models: inputs are the targets shifted right."""

    def __init__(self, documents: Rows, max_length: int, bos: int, seed: int = 0) -> None:
        self._documents, self._max_length, self._bos = documents, max_length, bos
        self._seed = seed

    def examples(self, epoch: int | None) -> Examples:
        """The chunks of an epoch, EOS of documents included."""
        generator = None if epoch is None else np.random.default_rng([self._seed, epoch, 1])
        chunks = chunk_documents(self._documents, self._max_length, generator)
        return Examples(chunks.lengths(), collate=partial(self._batch, chunks))

    def _batch(self, chunks: Chunks, indices: Indices, whole: Indices) -> Batch:
        """The first input of a chunk is the token before it, or BOS at the start of a document."""
        ids, begins, ends = chunks.ids, chunks.begins[indices], chunks.ends[indices]
        sizes = ends - begins
        rows = [ids[begin:end] for begin, end in zip(begins, ends, strict=True)]
        targets = np.concatenate(rows).astype(np.int64)
        inputs = np.roll(targets, 1)
        inputs[np.cumsum(sizes) - sizes] = np.where(
            chunks.firsts[indices], self._bos, ids[np.maximum(begins - 1, 0)]
        )
        lengths = Lengths.of(sizes.tolist())
        source, target = (Ragged(torch.from_numpy(row), lengths) for row in (inputs, targets))
        return Batch(source, target)


class MaskedDataset(Dataset):
    """Chunks of documents between BOS and EOS, with masked tokens.

    With `sentence_pairs`, a row is `BOS A EOS B EOS`; in half of them, B is from another chunk.
    """

    def __init__(
        self,
        documents: Rows,
        max_length: int,
        bos: int,
        masker: Masker,
        *,
        seed: int = 0,
        sentence_pairs: bool = False,
    ) -> None:
        self._documents, self._max_length, self._bos = documents, max_length, bos
        self._masker, self._seed, self._sentence_pairs = masker, seed, sentence_pairs

    def examples(self, epoch: int | None) -> Examples:
        """The chunks of an epoch, without EOS of documents."""
        special_tokens = 3 if self._sentence_pairs else 2
        masking_epoch = None if not self._masker.dynamic else epoch
        generator = None
        if masking_epoch is not None:
            generator = np.random.default_rng([self._seed, masking_epoch, 1])
        max_length = self._max_length - special_tokens
        chunks = chunk_documents(self._documents, max_length, generator, eos=False)
        key = self._seed, 0 if masking_epoch is None else masking_epoch + 1
        return Examples(
            chunks.lengths() + special_tokens, collate=partial(self._batch, chunks, key)
        )

    def _batch(
        self, chunks: Chunks, key: tuple[int, int], indices: Indices, whole: Indices
    ) -> Batch:
        """A batch of rows; each has a random generator seeded by seed, epoch and offset."""
        rows = [self._row(chunks, key, index) for index in indices]
        inputs, labels, segments = (
            torch.from_numpy(np.concatenate([row[part] for row in rows])) for part in range(3)
        )
        lengths = Lengths.of([len(row.inputs) for row in rows])
        sides = Ragged(inputs, lengths), Ragged(labels, lengths)
        filler = int((labels == SPECIAL.pad).sum())
        if not self._sentence_pairs:
            return Batch(*sides, filler)
        next_labels = torch.tensor([int(row.random_next) for row in rows])
        return SentencePairBatch(
            *sides, filler, segments=segments, next_sentence_labels=next_labels
        )

    def _row(self, chunks: Chunks, key: tuple[int, int], index: int) -> _Row:
        generator = np.random.default_rng([*key, int(chunks.begins[index])])
        chunk, random_next = chunks[index], False
        parts = [chunk]
        if self._sentence_pairs and len(chunk) > 1:
            middle = int(generator.integers(1, len(chunk)))
            random_next = bool(generator.random() < 0.5)
            other = chunks[int(generator.integers(len(chunks)))]
            parts = [
                chunk[:middle],
                other[: len(chunk) - middle] if random_next else chunk[middle:],
            ]
        bos, eos = np.array([self._bos]), np.array([SPECIAL.eos])
        tokens = np.concatenate([bos, *(row for part in parts for row in (part, eos))])
        segments = np.zeros(len(tokens), dtype=np.int64)
        segments[len(parts[0]) + 2 :] = 1
        return _Row(*self._masker.mask_tokens(tokens, generator), segments, random_next)


class _Row(NamedTuple):
    inputs: Ids
    labels: Ids
    segments: Ids
    random_next: bool  # the second segment does not follow the first
