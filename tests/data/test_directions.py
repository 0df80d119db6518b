"""Directions and their statistics."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from regard.data.directions import (
    Direction,
    DirectionStatistics,
    format_directions,
    merge_statistics,
    union_statistics,
)

EN_DE, DE_EN = Direction("en", "de"), Direction("de", "en")
STATISTICS = st.builds(
    DirectionStatistics,
    st.sampled_from(["en", "de"]),
    st.sampled_from(["fr", "zh"]),
    st.integers(0, 10**6),
    st.integers(0, 500),
    st.floats(0, 1),
)
LISTS = st.lists(STATISTICS, max_size=6, unique_by=lambda each: each.direction)


def test_statistics_of_a_union_are_those_of_all_its_pairs() -> None:
    parts = [DirectionStatistics(*EN_DE, 300, 20, 0.5), DirectionStatistics(*DE_EN, 100, 30, 0.1)]
    longest, several = union_statistics(parts)
    assert (longest, round(several, 9)) == (30, 0.4)
    assert union_statistics([DirectionStatistics(*EN_DE, 0, 5, 0.0)]) == (5, 0.0)


@given(first=LISTS, second=LISTS)
def test_merging_is_idempotent_and_keeps_every_direction(
    first: list[DirectionStatistics], second: list[DirectionStatistics]
) -> None:
    merged = merge_statistics(first, second)
    assert merge_statistics(merged, second) == merged == merge_statistics(merged, first)
    assert {each.direction for each in merged} == {each.direction for each in [*first, *second]}
    for each in first:
        [same] = [other for other in merged if other.direction == each.direction]
        assert same.longest_source >= each.longest_source


def test_long_lists_are_abbreviated() -> None:
    assert format_directions([EN_DE, DE_EN]) == "en-de, de-en"
    assert format_directions([EN_DE] * 5, limit=2) == "en-de, en-de and 3 others"
