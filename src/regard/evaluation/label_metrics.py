"""Metrics of labels: accuracy, F1 of labels and spans, confusion matrix, most confident errors.

Labels of texts are a flat sequence; labels of words are a sequence per sentence. Span scores are
those of seqeval's default mode: a span is correct if its type and both boundaries are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.data.spans import extract_spans


@dataclass(frozen=True)
class Score:
    """Precision, recall and F1, from 0 to 1."""

    precision: float
    recall: float
    f1: float
    support: int  # gold labels or spans


@dataclass(frozen=True)
class Scores:
    """Scores of each label or span type, and their micro-average."""

    each: dict[str, Score]  # by name, sorted
    overall: Score  # micro-average

    @property
    def macro_f1(self) -> float:
        """The unweighted mean of the F1 scores."""
        return float(np.mean([score.f1 for score in self.each.values()])) if self.each else 0.0


def accuracy(predicted: Sequence[str], gold: Sequence[str]) -> float:
    """Return the fraction of labels that are correct."""
    return sum(p == g for p, g in zip(predicted, gold, strict=True)) / max(len(gold), 1)


def label_scores(predicted: Sequence[str], gold: Sequence[str]) -> Scores:
    """Return precision, recall and F1 of each label."""
    return _score_items(
        ((label, index) for index, label in enumerate(predicted)),
        ((label, index) for index, label in enumerate(gold)),
    )


def span_scores(predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> Scores:
    """Return precision, recall and F1 of each span type, from IOB labels of sentences."""
    return _score_items(_located_spans(predicted), _located_spans(gold))


def _located_spans(sentences: Sequence[Sequence[str]]) -> Iterable[tuple[str, Hashable]]:
    for number, labels in enumerate(sentences):
        for kind, first, last in extract_spans(labels):
            yield kind, (number, first, last)


def _score_items(
    predicted: Iterable[tuple[str, Hashable]], gold: Iterable[tuple[str, Hashable]]
) -> Scores:
    """Score items, each of which is a name and a location."""
    predicted_items, gold_items = set(predicted), set(gold)
    counts = [
        Counter(name for name, _ in items)
        for items in (predicted_items & gold_items, predicted_items, gold_items)
    ]
    names = sorted({*counts[1], *counts[2]})
    each = {name: _to_score(*(counter[name] for counter in counts)) for name in names}
    return Scores(each, _to_score(*(counter.total() for counter in counts)))


def _to_score(correct: int, predicted: int, gold: int) -> Score:
    precision, recall = correct / max(predicted, 1), correct / max(gold, 1)
    f1 = 2 * correct / max(predicted + gold, 1)
    return Score(precision, recall, f1, gold)


def confusion_matrix(
    predicted: Sequence[str], gold: Sequence[str], labels: Sequence[str]
) -> NDArray[np.int64]:
    """Count the pairs of a gold label (row) and a predicted label (column)."""
    ids = {label: number for number, label in enumerate(labels)}
    counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(counts, ([ids[label] for label in gold], [ids[label] for label in predicted]), 1)
    return counts


@dataclass(frozen=True)
class LabelError:
    """A wrong label, with the probability that the model assigned to it."""

    index: int  # among all labels
    predicted: str
    gold: str
    probability: float


def most_confident_errors(
    predicted: Sequence[str], gold: Sequence[str], probabilities: Sequence[float], *, count: int
) -> list[LabelError]:
    """Return the errors with the highest probabilities, in descending order."""
    errors = [
        LabelError(index, label, gold_label, probability)
        for index, (label, gold_label, probability) in enumerate(
            zip(predicted, gold, probabilities, strict=True)
        )
        if label != gold_label
    ]
    return sorted(errors, key=lambda error: -error.probability)[:count]
