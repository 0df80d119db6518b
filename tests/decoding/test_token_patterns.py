"""Patterns in token sequences agree with naive searches."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from looping import includes, repeats_ngram
from regard.decoding.token_patterns import (
    contains,
    has_repeated_ngram,
    most_repetitions,
    repeated_share,
)

ids = st.lists(st.integers(4, 6), max_size=12)


@given(ids, st.integers(1, 5))
def test_repeated_ngrams(tokens: list[int], size: int) -> None:
    assert has_repeated_ngram(tokens, size) == repeats_ngram(tokens, size)
    assert not has_repeated_ngram(tokens, 0)


@given(ids, st.lists(st.integers(4, 6), min_size=1, max_size=3))
def test_subsequences(tokens: list[int], part: list[int]) -> None:
    assert contains(tokens, part) == includes(tokens, part)


@given(ids)
def test_most_repetitions(tokens: list[int]) -> None:
    expected = 0
    for start in range(len(tokens)):
        for unit in range(1, len(tokens) - start + 1):
            count = 1
            while tokens[start + count * unit :][:unit] == tokens[start : start + unit]:
                count += 1
            expected = max(expected, count)
    assert most_repetitions(tokens) == expected


def test_share_of_repeated_trigrams() -> None:
    assert repeated_share([4, 5, 4, 5, 4, 5]) == 0.5
    assert repeated_share([4, 5]) == 0.0
    assert repeated_share(range(9)) == 0.0
