"""Datasets and batches of labelled text, for taggers and classifiers.

A tagged sentence is the row `BOS words EOS` with a label per word; its batch also has the number
of subwords of each word. A text is the row `BOS text EOS`, and a pair of texts the row
`BOS text EOS text EOS`, with one label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Protocol

import numpy as np

from regard.data.batch import Batch, TaggedBatch
from regard.data.byte_features import ByteFeatures
from regard.data.loader import FixedDataset
from regard.data.ragged import Lengths, Ragged
from regard.data.sampling import Indices
from regard.data.store import LabelledPart
from regard.text.special import SPECIAL
from regard.text.subword_sampling import SubwordSampler

Texts = Sequence[Sequence[int]]  # the ids of each word of a sentence, or of each text
Labels = Sequence[Sequence[int]]  # of each example


class Collate(Protocol):
    """Makes a batch of examples; missing labels are PAD."""

    def __call__(self, examples: Sequence[Texts], labels: Labels | None = None) -> Batch:
        """A batch of examples."""
        ...


class TaggedCollate:
    """Sentences of words, with their bytes if `byte_features` are given."""

    def __init__(self, bos: int, byte_features: ByteFeatures | None = None) -> None:
        self._bos, self._byte_features = bos, byte_features

    def __call__(self, examples: Sequence[Texts], labels: Labels | None = None) -> TaggedBatch:
        """A batch of examples."""
        rows = [
            [self._bos, *(token for word in words for token in word), SPECIAL.eos]
            for words in examples
        ]
        targets = labels or [[SPECIAL.pad] * len(words) for words in examples]
        all_words = [word for words in examples for word in words]
        return TaggedBatch(
            Ragged.of(rows),
            Ragged.of(targets),
            words=Lengths.of([*map(len, all_words)]),
            word_bytes=self._byte_features.extract(all_words) if self._byte_features else None,
        )


class ClassifiedCollate:
    """Single texts or pairs of texts, truncated to the maximum length of the model."""

    def __init__(self, bos: int, max_length: int) -> None:
        self._bos, self._max_length = bos, max_length

    def __call__(self, examples: Sequence[Texts], labels: Labels | None = None) -> Batch:
        """A batch of examples."""
        rows = []
        for texts in examples:
            row = [self._bos]
            for text in truncate_texts(texts, self._max_length - 1 - len(texts)):
                row += [*text, SPECIAL.eos]
            rows.append(row)
        return Batch(Ragged.of(rows), Ragged.of(labels or [[SPECIAL.pad]] * len(examples)))


class LabelledDataset(FixedDataset):
    """The examples of a part; in training, with subword regularization if it is enabled."""

    def __init__(
        self,
        part: LabelledPart,
        collate: Collate,
        *,
        special_tokens: int,
        seed: int = 0,
        subword_sampler: SubwordSampler | None = None,
    ) -> None:
        super().__init__(part.text.lengths() + special_tokens, collate=self._batch)
        self._part, self._rows = part, collate
        self._seed, self._subword_sampler = seed, subword_sampler

    def empty_batch(self) -> Batch:
        """A batch of one UNK token without a label."""
        batch = self._rows([[[SPECIAL.unk]]])
        return replace(batch, filler=batch.target.lengths.total)

    def _batch(self, indices: Indices, epoch: int | None) -> Batch:
        texts = [self._texts(int(index), epoch) for index in indices]
        return self._rows(texts, [self._part.labels[int(index)].tolist() for index in indices])

    def _texts(self, index: int, epoch: int | None) -> Texts:
        ends = np.cumsum(self._part.sizes[index])[:-1]
        texts: list[list[int]] = [row.tolist() for row in np.split(self._part.text[index], ends)]
        if self._subword_sampler is None or epoch is None:
            return texts
        rng = Random(f"{self._seed} {epoch} {index}")
        return [self._subword_sampler.sample(text, rng) for text in texts]


def truncate_texts(texts: Texts, max_tokens: int) -> list[Sequence[int]]:
    """Texts truncated to `max_tokens` in total, the longest first."""
    truncated = [*texts]
    while (excess := sum(map(len, truncated)) - max_tokens) > 0:
        longest = max(range(len(truncated)), key=lambda index: len(truncated[index]))
        others = [len(text) for index, text in enumerate(truncated) if index != longest]
        # To the length of the other text first, then alternately.
        step = max(1, min(excess, len(truncated[longest]) - max(others, default=0)))
        truncated[longest] = truncated[longest][:-step]
    return truncated
