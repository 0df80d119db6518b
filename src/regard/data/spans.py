"""Spans in IOB2 (BIO) labels: B-x begins a span of type x, I-x continues it, O is outside.

Other label sets have no spans, and any label may follow any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

OUTSIDE = "O"


class Span(NamedTuple):
    """A span of words from `first` to `last`, both included."""

    kind: str
    first: int
    last: int


def uses_iob_labels(labels: Sequence[str]) -> bool:
    """Whether all labels are IOB labels."""
    span_labels = [label for label in labels if label != OUTSIDE]
    return bool(span_labels) and all(label[:2] in ("B-", "I-") for label in span_labels)


def is_valid_transition(label: str, before: str | None) -> bool:
    """Whether IOB2 allows a label after another; None: at the beginning of a sentence."""
    return not label.startswith("I-") or (before is not None and before[1:] == label[1:])


def extract_spans(labels: Sequence[str]) -> list[Span]:
    """The spans of a sentence; an I-x without a B-x begins a span, as in conlleval."""
    spans: list[Span] = []
    for position, (before, label) in enumerate(pairwise([OUTSIDE, *labels])):
        if label == OUTSIDE:
            continue
        kind = label[2:]
        if label.startswith("B-") or before == OUTSIDE or before[2:] != kind:
            spans.append(Span(kind, position, position))
        else:
            spans[-1] = spans[-1]._replace(last=position)
    return spans
