"""What models of labelled text read, and the labels that they should give.

A sentence of words is read as `start words end`, with a label for each word; its batch says how
many subwords each word has. A text is read as `start text end`, two as `start text end text end`,
with one label for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np

from regard.data.label_store import LabelledPart
from regard.data.pieces import Pieces
from regard.data.ragged import Batch, Lengths, Ragged
from regard.data.sampling import Indices
from regard.data.spelling import Speller
from regard.data.text_rows import TextTask
from regard.text.recut import Recutter
from regard.text.special import SPECIAL

Texts = Sequence[Sequence[int]]  # the ids of each word of a sentence, or of each text
Labels = Sequence[Sequence[int]]  # of each example


class LabelRows:
    """The examples of a part as rows; in training, words may be cut anew each time."""

    def __init__(
        self,
        part: LabelledPart,
        task: TextTask,
        seed: int,
        speller: Speller,
        recutter: Recutter | None = None,
    ) -> None:
        self._part, self._task, self._seed = part, task, seed
        self._speller, self._recutter = speller, recutter
        texts = 1 if task.objective == "tagged" else int(part.sizes.lengths().max(initial=1))
        self.frame = 1 + texts  # the start mark, and an end mark after each

    def pieces(self, epoch: int | None) -> Pieces:
        """Each example is one piece."""
        lengths = self._part.text.lengths()
        ends = np.cumsum(lengths)
        return Pieces(ends - lengths, ends, np.ones(len(ends), dtype=np.bool_))

    def batch(self, pieces: Pieces, indices: Indices, epoch: int | None) -> Batch:
        """Some of them as a batch."""
        examples = [self._texts(int(index), epoch) for index in indices]
        labels = [self._part.labels[int(index)].tolist() for index in indices]
        return label_batch(examples, self._task, labels, self._speller)

    def nothing(self) -> Batch:
        """A word, or a text, without a label."""
        batch = label_batch([[[SPECIAL.unknown]]], self._task, speller=self._speller)
        return replace(batch, filler=batch.target.lengths.total)

    def _texts(self, index: int, epoch: int | None) -> Texts:
        ends = np.cumsum(self._part.sizes[index])[:-1]
        texts: list[list[int]] = [one.tolist() for one in np.split(self._part.text[index], ends)]
        if self._recutter is None or epoch is None:
            return texts
        draw = Random(f"{self._seed} {epoch} {index}")
        return [self._recutter.recut(text, draw) for text in texts]


def label_batch(
    examples: Sequence[Texts],
    task: TextTask,
    labels: Labels | None = None,
    speller: Speller | None = None,
) -> Batch:
    """Examples as a batch; without labels, there is room for them. Words may have to be spelled."""
    if task.objective == "labelled":
        return _of_texts(examples, task, labels)
    batch = _of_words(examples, task, labels)
    if not task.spelled:
        return batch
    assert speller is not None
    words = (word for example in examples for word in example)
    return replace(batch, spelling=speller.spell(words))


def _of_words(examples: Sequence[Texts], task: TextTask, labels: Labels | None) -> Batch:
    rows = [
        [task.start, *(number for word in words for number in word), SPECIAL.end]
        for words in examples
    ]
    wanted = labels or [[SPECIAL.pad] * len(words) for words in examples]
    sizes = Lengths.of([len(word) for words in examples for word in words])
    return Batch(Ragged.of(rows), Ragged.of(wanted), words=sizes)


def _of_texts(examples: Sequence[Texts], task: TextTask, labels: Labels | None) -> Batch:
    rows = []
    for texts in examples:
        row = [task.start]
        for text in fitted(texts, task.context - 1 - len(texts)):
            row += [*text, SPECIAL.end]
        rows.append(row)
    return Batch(Ragged.of(rows), Ragged.of(labels or [[SPECIAL.pad]] * len(examples)))


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
