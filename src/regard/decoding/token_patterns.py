"""Patterns in sequences of token ids: repeated n-grams, loops, subsequences.

This module does not import PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

_LONGEST_UNIT = 24  # tokens of a unit that repeats


def ngrams(ids: Sequence[int], size: int) -> list[tuple[int, ...]]:
    """All n-grams of this size, in order."""
    return [*zip(*(ids[shift:] for shift in range(size)), strict=False)]


def has_repeated_ngram(ids: Sequence[int], size: int) -> bool:
    """Whether an n-gram of this size occurs twice; never for size 0."""
    grams = ngrams(ids, size) if size else []
    return len(set(grams)) < len(grams)


def repeated_share(ids: Sequence[int], size: int = 3) -> float:
    """The fraction of n-grams that occurred before."""
    grams = ngrams(ids, size)
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


def contains(ids: Sequence[int], part: Sequence[int]) -> bool:
    """Whether a sequence contains another without gaps."""
    if part[0] not in ids:
        return False
    starts = range(len(ids) - len(part) + 1)
    return any(tuple(ids[start : start + len(part)]) == tuple(part) for start in starts)


def most_repetitions(ids: Sequence[int]) -> int:
    """How often a unit of tokens is repeated in a row: 3 for "a b a b a b", 1 without repetition.

    The highest number over all units of up to 24 tokens; 0 for an empty sequence.
    """
    units = range(1, min(_LONGEST_UNIT, len(ids) // 2) + 1)
    streaks = (1 + _longest_streak(ids, unit) // unit for unit in units)
    return max(streaks, default=min(len(ids), 1))


def _longest_streak(ids: Sequence[int], lag: int) -> int:
    """The longest run of tokens that equal the token `lag` positions before them."""
    return max(_streaks(ids, lag), default=0)


def _streaks(ids: Sequence[int], lag: int) -> Iterator[int]:
    streak = 0
    for token, other in zip(ids, ids[lag:], strict=False):
        streak = streak + 1 if token == other else 0
        yield streak
