"""Annotated terms: translations of terms inside of a source (Dinu et al., 2019, ACL P19-1294).

    a<term> dog<trans> Hund</term>, that barks

The source term stays, and its translation follows. The marks are text, so users can type them, and
single tokens wherever they occur. They precede the space of a word, so that all words keep their
subwords.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

from regard.text.segmentations import WITHOUT_SPACES

BEGIN, TRANSLATION, END = TERM_MARKS = ("<term>", "<trans>", "</term>")
_WITHOUT_SPACES = re.compile(f"[{WITHOUT_SPACES}]")
# The first word of a text has no space before it; it gets one after the mark.
_ANNOTATED = re.compile(rf"(?:\A{BEGIN} |{BEGIN})(.*?)({TRANSLATION}.*?{END})", re.DOTALL)


class AnnotatedTerm(NamedTuple):
    """A term of a text, from `start` to `end` without spaces around it, and its translation."""

    start: int
    end: int
    translation: str


def contains_mark(text: str) -> bool:
    """Whether a text contains a mark, also after normalization by a tokenizer."""
    normalized = unicodedata.normalize("NFKC", text).lower()
    return any(mark in normalized for mark in TERM_MARKS)


def annotate(text: str, terms: Iterable[AnnotatedTerm]) -> str:
    """The annotated text; the terms are in order and do not overlap."""
    parts: list[str] = []
    position = 0
    for start, end, translation in terms:
        before = start - 1 if start > 1 and text[start - 1] == " " else start
        parts += [text[position:before], BEGIN, " " if start == 0 else "", text[before:end]]
        parts += [TRANSLATION, "" if _WITHOUT_SPACES.match(translation) else " ", translation, END]
        position = end
    return "".join([*parts, text[position:]])


def strip_annotations(text: str) -> str:
    """A text without the marks and translations of annotated terms."""
    return _ANNOTATED.sub(r"\1", text)


def plain_offsets(text: str) -> list[int]:
    """For each position of an annotated text (and its end), that in the text without annotations.

    The positions of a translation are those of the beginning of its term.
    """
    offsets: list[int] = []
    position = plain = 0
    for match in _ANNOTATED.finditer(text):
        before, term = match.start() - position, match[1]
        offsets += range(plain, plain + before)
        plain += before
        offsets += [plain] * (match.start(1) - match.start())
        offsets += range(plain, plain + len(term))
        offsets += [plain + len(term) - len(term.lstrip())] * len(match[2])
        plain += len(term)
        position = match.end()
    return [*offsets, *range(plain, plain + len(text) - position + 1)]
