"""Spans in IOB labels."""

from __future__ import annotations

import pytest

from labelled import first_illegal
from regard.data.spans import Span, extract_spans, uses_iob_labels


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("", []),
        ("O O", []),
        ("B-a I-a O B-a", [Span("a", 0, 1), Span("a", 3, 3)]),
        ("B-a B-a I-a", [Span("a", 0, 0), Span("a", 1, 2)]),
        ("I-a I-a", [Span("a", 0, 1)]),  # without B-a
        ("B-a I-b I-b", [Span("a", 0, 0), Span("b", 1, 2)]),
        ("B-a-b I-a-b", [Span("a-b", 0, 1)]),
    ],
)
def test_extract_spans(labels: str, expected: list[Span]) -> None:
    assert extract_spans(labels.split()) == expected


def test_invalid_iob2_labels_are_detected() -> None:
    assert first_illegal(["B-a", "I-a", "O", "B-b"]) is None
    assert first_illegal([]) is None
    assert first_illegal(["I-a", "O"]) == 0
    assert first_illegal(["B-a", "O", "I-a"]) == 2
    assert first_illegal(["B-a", "I-a", "I-b"]) == 2


def test_uses_iob_labels() -> None:
    assert uses_iob_labels(["B-a", "I-a", "O"])
    assert uses_iob_labels(["I-a", "B-a"])
    assert not uses_iob_labels(["O"])
    assert not uses_iob_labels(["NOUN", "VERB"])
    assert not uses_iob_labels(["B-a", "I-a", "E-a", "O"])
