"""Spans of words as labels of words: B-x begins a span of type x, I-x goes on in it, O is outside.

(IOB2, also called BIO.) Labels that are not made so mark no spans, and any may follow any.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

OUTSIDE = "O"


class Span(NamedTuple):
    """Words `first` to `last`, both included, are one thing."""

    kind: str
    first: int
    last: int


def mark_spans(labels: Sequence[str]) -> bool:
    """Whether this set of labels is one that marks spans."""
    marks = [label for label in labels if label != OUTSIDE]
    return bool(marks) and all(label[:2] in ("B-", "I-") for label in marks)


def may_follow(label: str, before: str | None) -> bool:
    """Whether a label may stand after another; None: as the first of a sentence."""
    return not label.startswith("I-") or (before is not None and before[1:] == label[1:])


def spans(labels: Sequence[str]) -> list[Span]:
    """The spans of a sentence; an I-x that nobody began begins one, as evaluators have it."""
    found: list[Span] = []
    for place, (before, label) in enumerate(pairwise([OUTSIDE, *labels])):
        if label == OUTSIDE:
            continue
        kind = label[2:]
        if label.startswith("B-") or before == OUTSIDE or before[2:] != kind:
            found.append(Span(kind, place, place))
        else:
            found[-1] = found[-1]._replace(last=place)
    return found
