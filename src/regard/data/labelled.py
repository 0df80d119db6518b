"""Labelled text as rows, and the labels that should be predicted.

A sentence of words is read as `BOS words EOS`, with a label for each word; its batch holds the
number of subwords of each word. A text is read as `BOS text EOS`, two as `BOS text EOS text EOS`,
with one label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Protocol

import numpy as np

from regard.data.batch import Batch, TaggedBatch
from regard.data.loader import FixedDataset
from regard.data.ragged import Lengths, Ragged
from regard.data.sampling import Indices
from regard.data.spelling import Speller
from regard.data.store import LabelledPart
from regard.text.recut import Recutter
from regard.text.special import SPECIAL

Texts = Sequence[Sequence[int]]  # the ids of each word of a sentence, or of each text
Labels = Sequence[Sequence[int]]  # of each example


class Collate(Protocol):
    """Examples as a batch; without labels, there is padding in their place."""

    def __call__(self, examples: Sequence[Texts], labels: Labels | None = None) -> Batch:
        """Examples as a batch."""
        ...


class TaggedCollate:
    """Sentences of words; with a speller, the bytes of words are read, too."""

    def __init__(self, start: int, speller: Speller | None = None) -> None:
        self._start, self._speller = start, speller

    def __call__(self, examples: Sequence[Texts], labels: Labels | None = None) -> TaggedBatch:
        """Examples as a batch."""
        rows = [
            [self._start, *(token for word in words for token in word), SPECIAL.end]
            for words in examples
        ]
        wanted = labels or [[SPECIAL.pad] * len(words) for words in examples]
        every = [word for words in examples for word in words]
        return TaggedBatch(
            Ragged.of(rows),
            Ragged.of(wanted),
            words=Lengths.of([*map(len, every)]),
            spelling=self._speller.spell(every) if self._speller else None,
        )


class ClassifiedCollate:
    """Texts, one or two, cut to the tokens that the model reads."""

    def __init__(self, start: int, context: int) -> None:
        self._start, self._context = start, context

    def __call__(self, examples: Sequence[Texts], labels: Labels | None = None) -> Batch:
        """Examples as a batch."""
        rows = []
        for texts in examples:
            row = [self._start]
            for text in fitted(texts, self._context - 1 - len(texts)):
                row += [*text, SPECIAL.end]
            rows.append(row)
        return Batch(Ragged.of(rows), Ragged.of(labels or [[SPECIAL.pad]] * len(examples)))


class LabelledDataset(FixedDataset):
    """The examples of a part; in training, words may be segmented anew each time."""

    def __init__(
        self,
        part: LabelledPart,
        collate: Collate,
        *,
        special_tokens: int,
        seed: int = 0,
        recutter: Recutter | None = None,
    ) -> None:
        super().__init__(part.text.lengths() + special_tokens, collate=self._batch)
        self._part, self._rows = part, collate
        self._seed, self._recutter = seed, recutter

    def empty_batch(self) -> Batch:
        """One unknown token without a label."""
        batch = self._rows([[[SPECIAL.unknown]]])
        return replace(batch, filler=batch.target.lengths.total)

    def _batch(self, indices: Indices, epoch: int | None) -> Batch:
        texts = [self._texts(int(index), epoch) for index in indices]
        return self._rows(texts, [self._part.labels[int(index)].tolist() for index in indices])

    def _texts(self, index: int, epoch: int | None) -> Texts:
        ends = np.cumsum(self._part.sizes[index])[:-1]
        texts: list[list[int]] = [row.tolist() for row in np.split(self._part.text[index], ends)]
        if self._recutter is None or epoch is None:
            return texts
        draw = Random(f"{self._seed} {epoch} {index}")
        return [self._recutter.recut(text, draw) for text in texts]


def fitted(texts: Texts, room: int) -> list[Sequence[int]]:
    """The beginnings of texts that fit; of two, the longer is cut first."""
    kept = [*texts]
    while (excess := sum(map(len, kept)) - room) > 0:
        longest = max(range(len(kept)), key=lambda number: len(kept[number]))
        others = [len(text) for number, text in enumerate(kept) if number != longest]
        # Down to the length of the other, and from there on by turns.
        step = max(1, min(excess, len(kept[longest]) - max(others, default=0)))
        kept[longest] = kept[longest][:-step]
    return kept
