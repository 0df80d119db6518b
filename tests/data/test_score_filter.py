"""Filters by scores: thresholds and shares."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.config import build
from regard.data.score_filter import ScoreFilterConfig, rejected_by_score, threshold
from regard.errors import ConfigError

some_scores = st.lists(st.integers(-20, 0), min_size=1, max_size=30)


@given(some_scores, st.integers(0, 100))
def test_a_share_keeps_the_best_pairs_and_those_that_equal_them(
    scores: list[int], percent: int
) -> None:
    limit = threshold(np.array(scores, float), None, percent / 100)
    count = math.ceil(percent * len(scores) / 100)
    kept = [score for score in scores if score >= limit]
    best = sorted(scores, reverse=True)[:count]
    assert sorted(kept, reverse=True)[:count] == best
    assert all(score == best[-1] for score in sorted(kept, reverse=True)[count:])


@given(some_scores, st.integers(-20, 0), st.integers(0, 100))
def test_the_stricter_limit_counts(scores: list[int], minimum: int, percent: int) -> None:
    values, share = np.array(scores, float), percent / 100
    limits = threshold(values, minimum, None), threshold(values, None, share)
    assert limits[0] == minimum
    assert threshold(values, minimum, share) == max(limits)


def test_no_limit_keeps_all() -> None:
    assert threshold(np.array([-1.0, 0.0]), None, None) == -math.inf
    assert threshold(np.array([]), None, 0.5) == -math.inf
    config = ScoreFilterConfig()
    assert [*rejected_by_score({"dual": np.array([0.1])}, config)] == []


def test_filters_do_not_depend_on_each_other() -> None:
    scores = {"dual": np.array([0.9, 0.1, 0.5, 0.4]), "alignment": np.array([-9.0, -9, -1, -2])}
    config = ScoreFilterConfig(keep_dual=0.5, min_alignment=-3)
    (first, low_dual), (second, low_alignment) = rejected_by_score(scores, config)
    assert first == "dual cross-entropy score below 0.5"
    assert low_dual.tolist() == [False, True, False, True]
    assert second == "alignment score below -3"
    assert low_alignment.tolist() == [True, True, False, False]


@pytest.mark.parametrize(
    "values",
    [{"min_dual": 1.5}, {"keep_dual": -0.1}, {"min_alignment": 1.0}, {"keep_alignment": 2.0}],
)
def test_limits_have_bounds(values: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(values))):
        build(ScoreFilterConfig, values)
