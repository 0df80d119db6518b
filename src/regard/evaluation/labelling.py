"""How good labels are: accuracy, F1 of labels and of spans, who is taken for whom, worst mistakes.

Labels of sentences are one row; labels of words are a row for each sentence. Spans are counted as
seqeval counts them by default: a span is right if its type, its first and its last word are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.data.spans import spans


@dataclass(frozen=True)
class Score:
    """Of what was found, how much is right; of what is there, how much was found. From 0 to 1."""

    precision: float
    recall: float
    f1: float
    support: int  # how many there are


@dataclass(frozen=True)
class Scores:
    """Scores of each label or type of span, and of all together."""

    each: dict[str, Score]  # by name, in order
    overall: Score  # over all of them, counted together

    @property
    def macro_f1(self) -> float:
        """The mean F1, in which rare ones count as much as frequent ones."""
        return float(np.mean([score.f1 for score in self.each.values()])) if self.each else 0.0


def accuracy(found: Sequence[str], gold: Sequence[str]) -> float:
    """The share of labels that are right."""
    return sum(f == g for f, g in zip(found, gold, strict=True)) / max(len(gold), 1)


def label_scores(found: Sequence[str], gold: Sequence[str]) -> Scores:
    """Every label by itself: how often it is found, and how often it is right."""
    return _scores(
        ((label, place) for place, label in enumerate(found)),
        ((label, place) for place, label in enumerate(gold)),
    )


def span_scores(found: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> Scores:
    """Every type of span by itself, of sentences of labels B-x, I-x and O."""
    return _scores(_located_spans(found), _located_spans(gold))


def _located_spans(sentences: Sequence[Sequence[str]]) -> Iterable[tuple[str, Hashable]]:
    for number, labels in enumerate(sentences):
        for kind, first, last in spans(labels):
            yield kind, (number, first, last)


def _scores(found: Iterable[tuple[str, Hashable]], gold: Iterable[tuple[str, Hashable]]) -> Scores:
    """Of things that have a name and a place."""
    own, true = set(found), set(gold)
    names = [Counter(name for name, _ in things) for things in (own & true, own, true)]
    each = {
        name: _score(*(counts[name] for counts in names)) for name in sorted({*names[1], *names[2]})
    }
    return Scores(each, _score(*(counts.total() for counts in names)))


def _score(right: int, found: int, gold: int) -> Score:
    precision, recall = right / max(found, 1), right / max(gold, 1)
    f1 = 2 * right / max(found + gold, 1)  # the harmonic mean, 0 where there is nothing
    return Score(precision, recall, f1, gold)


def confusion(
    found: Sequence[str], gold: Sequence[str], labels: Sequence[str]
) -> NDArray[np.int64]:
    """How often each label (a row) was taken for each label (a column)."""
    number = {label: place for place, label in enumerate(labels)}
    counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(counts, ([number[label] for label in gold], [number[label] for label in found]), 1)
    return counts


@dataclass(frozen=True)
class Mistake:
    """A wrong label, and how sure of it the model was."""

    place: int  # among all labels, counted from 0
    found: str
    gold: str
    probability: float


def worst(
    found: Sequence[str], gold: Sequence[str], probabilities: Sequence[float], *, count: int
) -> list[Mistake]:
    """The mistakes of which the model was surest, the surest first."""
    mistakes = [
        Mistake(place, own, true, probability)
        for place, (own, true, probability) in enumerate(
            zip(found, gold, probabilities, strict=True)
        )
        if own != true
    ]
    return sorted(mistakes, key=lambda mistake: -mistake.probability)[:count]
