"""Correct words equal those of an exhaustive search over edit sequences."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.evaluation.correctness import kept_words

words = st.lists(st.sampled_from("abc"), max_size=6)


def alignments(
    hypothesis: tuple[str, ...], reference: tuple[str, ...]
) -> set[tuple[int, tuple[bool, ...]]]:
    """The number of edits of all edit sequences, and which words each keeps."""
    if not hypothesis:
        return {(len(reference), ())}
    rest = {(edits + 1, (False, *kept)) for edits, kept in cached(hypothesis[1:], reference)}
    if reference:
        rest |= {(edits + 1, kept) for edits, kept in cached(hypothesis, reference[1:])}
        equal = hypothesis[0] == reference[0]
        rest |= {
            (edits + (not equal), (equal, *kept))
            for edits, kept in cached(hypothesis[1:], reference[1:])
        }
    return rest


cached = cache(alignments)


@settings(deadline=None)
@given(words, words)
def test_kept_words_belong_to_a_minimal_edit_sequence(
    hypothesis: list[str], reference: list[str]
) -> None:
    kept = tuple(kept_words(hypothesis, reference))
    sequences = cached(tuple(hypothesis), tuple(reference))
    minimum = min(edits for edits, _ in sequences)
    assert (minimum, kept) in sequences


@pytest.mark.parametrize(
    ("hypothesis", "reference", "kept"),
    [
        ("a b c", "a b c", [True, True, True]),
        ("a x c", "a b c", [True, False, True]),
        ("x a b", "a b", [False, True, True]),
        ("", "a", []),
        ("a", "", [False]),
    ],
)
def test_examples(hypothesis: str, reference: str, kept: list[bool]) -> None:
    assert kept_words(hypothesis.split(), reference.split()) == kept
