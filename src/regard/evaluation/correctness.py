"""Which words of a translation are correct, judged by a reference.

As in word-level quality estimation (the OK and BAD tags of WMT), a word is correct if a minimal
edit sequence (Levenshtein, 1966) from the words of the translation to those of the reference keeps
it.
"""

from __future__ import annotations

from collections.abc import Sequence


def kept_words(hypothesis: Sequence[str], reference: Sequence[str]) -> list[bool]:
    """For each word of the hypothesis, whether a minimal edit sequence keeps it.

    Among the minimal ones, it is a sequence that keeps the last words where possible.
    """
    kept = [False] * len(hypothesis)
    distances = _edit_distances(hypothesis, reference)
    row, column = len(hypothesis), len(reference)
    while row and column:
        is_equal = hypothesis[row - 1] == reference[column - 1]
        distance = distances[row][column]
        if distance == distances[row - 1][column - 1] + (not is_equal):
            row, column = row - 1, column - 1
            kept[row] = is_equal
        elif distance == distances[row - 1][column] + 1:
            row -= 1
        else:
            column -= 1
    return kept


def _edit_distances(hypothesis: Sequence[str], reference: Sequence[str]) -> list[list[int]]:
    """The edit distance of all pairs of beginnings."""
    distances = [[*range(len(reference) + 1)]]
    for word in hypothesis:
        above = distances[-1]
        row = [above[0] + 1]
        for column, other in enumerate(reference):
            substituted = above[column] + (word != other)
            row.append(min(substituted, above[column + 1] + 1, row[column] + 1))
        distances.append(row)
    return distances
