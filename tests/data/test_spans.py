"""Spans and the labels that mark them."""

from __future__ import annotations

import pytest

from labelled import first_illegal
from regard.data.spans import Span, mark_spans, spans


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("", []),
        ("O O", []),
        ("B-a I-a O B-a", [Span("a", 0, 1), Span("a", 3, 3)]),
        ("B-a B-a I-a", [Span("a", 0, 0), Span("a", 1, 2)]),
        ("I-a I-a", [Span("a", 0, 1)]),  # nobody began it
        ("B-a I-b I-b", [Span("a", 0, 0), Span("b", 1, 2)]),
        ("B-a-b I-a-b", [Span("a-b", 0, 1)]),
    ],
)
def test_by_hand(labels: str, expected: list[Span]) -> None:
    assert spans(labels.split()) == expected


def test_what_nobody_began_is_found() -> None:
    assert first_illegal(["B-a", "I-a", "O", "B-b"]) is None
    assert first_illegal([]) is None
    assert first_illegal(["I-a", "O"]) == 0
    assert first_illegal(["B-a", "O", "I-a"]) == 2
    assert first_illegal(["B-a", "I-a", "I-b"]) == 2


def test_only_some_sets_of_labels_mark_spans() -> None:
    assert mark_spans(["B-a", "I-a", "O"])
    assert mark_spans(["I-a", "B-a"])
    assert not mark_spans(["O"])
    assert not mark_spans(["NOUN", "VERB"])
    assert not mark_spans(["B-a", "I-a", "E-a", "O"])
