"""Scores of labels, by hand and against seqeval."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest

from regard.evaluation.labelling import (
    Mistake,
    Score,
    accuracy,
    confusion,
    label_scores,
    span_scores,
    worst,
)

GOLD = ["a", "a", "b", "c"]
FOUND = ["a", "b", "b", "a"]


def test_labels_by_hand() -> None:
    assert accuracy(FOUND, GOLD) == 0.5
    scores = label_scores(FOUND, GOLD)
    assert scores.each == {
        "a": Score(0.5, 0.5, 0.5, 2),
        "b": Score(0.5, 1.0, 2 / 3, 1),
        "c": Score(0.0, 0.0, 0.0, 1),
    }
    assert scores.macro_f1 == pytest.approx((0.5 + 2 / 3) / 3)
    assert scores.overall == Score(0.5, 0.5, 0.5, 4)  # with a label each, that is accuracy


def test_who_is_taken_for_whom() -> None:
    counts = confusion(FOUND, GOLD, ["a", "b", "c"])
    assert counts.tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 0]]
    assert np.trace(counts) == 2


def test_the_surest_mistakes_come_first() -> None:
    found = worst(FOUND, GOLD, [0.9, 0.6, 0.99, 0.8], count=5)
    assert found == [Mistake(3, "a", "c", 0.8), Mistake(1, "b", "a", 0.6)]
    assert worst(FOUND, GOLD, [0.9, 0.6, 0.99, 0.8], count=1) == found[:1]


def test_nothing_is_no_division_by_zero() -> None:
    assert accuracy([], []) == 0.0
    assert span_scores([["O"]], [["O"]]).overall == Score(0.0, 0.0, 0.0, 0)
    assert span_scores([["O"]], [["O"]]).macro_f1 == 0.0


@pytest.mark.parametrize("seed", range(20))
def test_spans_are_counted_as_seqeval_counts_them(seed: int) -> None:
    metrics = pytest.importorskip(
        "seqeval.metrics.sequence_labeling", reason="needs seqeval (make dev)"
    )
    draw = random.Random(seed)
    labels = ["O", "B-per", "I-per", "B-place-name", "I-place-name", "B-x"][: 2 + seed % 5]
    gold = [[draw.choice(labels) for _ in range(draw.randint(0, 12))] for _ in range(8)]
    found = [
        [label if draw.random() < 0.7 else draw.choice(labels) for label in one] for one in gold
    ]
    own = span_scores(found, gold)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where something is 0 of 0
        count = metrics.precision_recall_fscore_support
        each = count(gold, found, average=None)
        overall = count(gold, found, average="micro")
        macro = metrics.f1_score(gold, found, average="macro")
    values = np.array([[s.precision, s.recall, s.f1, s.support] for s in own.each.values()])
    np.testing.assert_allclose(values.reshape(-1, 4), np.array(each).T.reshape(-1, 4))
    assert (own.overall.precision, own.overall.recall, own.overall.f1) == pytest.approx(overall[:3])
    assert own.macro_f1 == pytest.approx(macro)
