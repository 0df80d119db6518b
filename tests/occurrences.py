"""Occurrences of constraints in outputs, by definition."""

from __future__ import annotations

from collections.abc import Sequence

from regard.decoding.token_constraints import TokenConstraint

CONTINUES = [token in (6, 7) for token in range(40)]  # these tokens continue a word


def occurrences(output: Sequence[int], constraint: TokenConstraint) -> int:
    """The number of occurrences that do not overlap, by a search from left to right."""
    count = begin = 0
    for end in range(1, len(output) + 1):
        is_word = end == len(output) or not CONTINUES[output[end]] or not constraint.whole_word
        if is_word and any(tuple(output[begin:end])[-len(s) :] == s for s in constraint.sequences):
            count, begin = count + 1, end
    return count


def is_satisfied(output: Sequence[int], constraint: TokenConstraint) -> bool:
    count = occurrences(output, constraint)
    return count == constraint.occurrences or (
        count > constraint.occurrences and not constraint.exactly
    )
