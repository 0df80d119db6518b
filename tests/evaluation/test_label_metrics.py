"""Label metrics, compared with manual results and with seqeval."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest

from regard.evaluation.label_metrics import (
    LabelError,
    Score,
    accuracy,
    confusion_matrix,
    label_scores,
    most_confident_errors,
    span_scores,
)

GOLD = ["a", "a", "b", "c"]
PREDICTED = ["a", "b", "b", "a"]


def test_label_scores_match_manual_results() -> None:
    assert accuracy(PREDICTED, GOLD) == 0.5
    scores = label_scores(PREDICTED, GOLD)
    assert scores.each == {
        "a": Score(0.5, 0.5, 0.5, 2),
        "b": Score(0.5, 1.0, 2 / 3, 1),
        "c": Score(0.0, 0.0, 0.0, 1),
    }
    assert scores.macro_f1 == pytest.approx((0.5 + 2 / 3) / 3)
    assert scores.overall == Score(0.5, 0.5, 0.5, 4)  # micro-average of single labels: accuracy


def test_confusion_matrix() -> None:
    counts = confusion_matrix(PREDICTED, GOLD, ["a", "b", "c"])
    assert counts.tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 0]]
    assert np.trace(counts) == 2


def test_most_confident_errors_are_sorted() -> None:
    errors = most_confident_errors(PREDICTED, GOLD, [0.9, 0.6, 0.99, 0.8], count=5)
    assert errors == [LabelError(3, "a", "c", 0.8), LabelError(1, "b", "a", 0.6)]
    assert most_confident_errors(PREDICTED, GOLD, [0.9, 0.6, 0.99, 0.8], count=1) == errors[:1]


def test_empty_inputs_score_zero() -> None:
    assert accuracy([], []) == 0.0
    assert span_scores([["O"]], [["O"]]).overall == Score(0.0, 0.0, 0.0, 0)
    assert span_scores([["O"]], [["O"]]).macro_f1 == 0.0


@pytest.mark.parametrize("seed", range(20))
def test_span_scores_match_seqeval(seed: int) -> None:
    metrics = pytest.importorskip(
        "seqeval.metrics.sequence_labeling", reason="needs seqeval (make dev)"
    )
    draw = random.Random(seed)
    labels = ["O", "B-per", "I-per", "B-place-name", "I-place-name", "B-x"][: 2 + seed % 5]
    gold = [[draw.choice(labels) for _ in range(draw.randint(0, 12))] for _ in range(8)]
    predicted = [
        [label if draw.random() < 0.7 else draw.choice(labels) for label in sentence]
        for sentence in gold
    ]
    scores = span_scores(predicted, gold)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about undefined scores
        count = metrics.precision_recall_fscore_support
        each = count(gold, predicted, average=None)
        overall = count(gold, predicted, average="micro")
        macro = metrics.f1_score(gold, predicted, average="macro")
    values = np.array([[s.precision, s.recall, s.f1, s.support] for s in scores.each.values()])
    np.testing.assert_allclose(values.reshape(-1, 4), np.array(each).T.reshape(-1, 4))
    assert (scores.overall.precision, scores.overall.recall, scores.overall.f1) == pytest.approx(
        overall[:3]
    )
    assert scores.macro_f1 == pytest.approx(macro)
