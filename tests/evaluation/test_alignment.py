"""The alignment error rate, compared with manual results, and by attention head."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from regard.data.alignments import Links, to_pharaoh
from regard.decoding.attention_maps import AlignmentHead, HeadAlignments
from regard.errors import DataError
from regard.evaluation.alignment import (
    AlignmentScores,
    GoldAlignment,
    alignment_error_rates,
    read_gold_alignments,
    score_alignments,
    silver_alignment,
)

SURE, POSSIBLE = {(0, 0), (1, 1)}, {(0, 0), (1, 1), (2, 1), (2, 2)}


@pytest.mark.parametrize(
    ("predicted", "expected"),
    [
        (SURE, AlignmentScores(1.0, 1.0, 0.0)),
        (POSSIBLE, AlignmentScores(1.0, 1.0, 0.0)),  # possible links are optional
        ({(0, 0)}, AlignmentScores(1.0, 0.5, 1 - 2 / 3)),
        ({(0, 0), (2, 2), (0, 2)}, AlignmentScores(2 / 3, 0.5, 1 - (1 + 2) / (3 + 2))),
        ({(0, 2)}, AlignmentScores(0.0, 0.0, 1.0)),
        (set(), AlignmentScores(1.0, 0.0, 1.0)),
    ],
)
def test_scores_match_manual_results(predicted: Links, expected: AlignmentScores) -> None:
    scores = score_alignments([predicted], [GoldAlignment(SURE, POSSIBLE)])
    assert (scores.precision, scores.recall) == pytest.approx((expected.precision, expected.recall))
    assert scores.error_rate == pytest.approx(expected.error_rate)


def test_scores_are_computed_over_all_pairs() -> None:
    gold = [
        GoldAlignment(SURE, POSSIBLE),
        GoldAlignment({(0, 0)}, {(0, 0)}),
        GoldAlignment(set(), set()),
    ]
    scores = score_alignments([SURE, {(0, 1)}, set()], gold)
    assert (scores.precision, scores.recall) == pytest.approx((2 / 3, 2 / 3))
    assert scores.error_rate == pytest.approx(1 - 4 / 6)
    assert score_alignments([set()], [GoldAlignment(set(), set())]) == AlignmentScores(
        1.0, 1.0, 0.0
    )


def test_silver_alignment_of_two_directions() -> None:
    forward, backward = np.array([0, 1, 1]), np.array([0, 1])
    gold = silver_alignment(forward, backward)
    assert (to_pharaoh(gold.sure), to_pharaoh(gold.possible)) == ("0-0 1-1", "0-0 1-1 1-2")


def test_error_rate_of_each_head() -> None:
    rng = np.random.default_rng(1)
    alignments = [
        HeadAlignments(rng.integers(0, 4, (2, 3, 3, 5)), rng.integers(0, 5, (2, 3, 3, 4)))
        for _ in range(6)
    ]
    best = AlignmentHead(shift=True, layer=2, head=None)
    gold = [
        GoldAlignment(links, links)
        for links in ({(i, j) for j, i in enumerate(pair.by_head(best)[0])} for pair in alignments)
    ]
    rates = alignment_error_rates(alignments, gold, "forward")
    assert len(rates) == 2 * 3 * 3
    assert rates[best] == 0
    assert [head for head, rate in rates.items() if rate < 0.3] == [best]
    nothing = alignment_error_rates(alignments, gold, "forward", lambda number, links: set())
    assert set(nothing.values()) == {1.0}


def test_gold_alignments_are_read_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "gold"
    path.write_text("0-0 1p1\n\n")
    assert read_gold_alignments(path, [(2, 2), (1, 1)]) == [
        GoldAlignment({(0, 0)}, {(0, 0), (1, 1)}),
        GoldAlignment(set(), set()),
    ]
    with pytest.raises(DataError, match=r"has 2 lines, but the text has 1"):
        read_gold_alignments(path, [(2, 2)])
    with pytest.raises(DataError, match=r"gold, line 1: .* has 2 source and 1 target words"):
        read_gold_alignments(path, [(2, 1), (1, 1)])
