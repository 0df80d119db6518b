"""Protected spans: parts of a text that its translations contain unchanged.

They are found by patterns of URLs, e-mail addresses, numbers and placeholders, by patterns of the
user, and by marks around them. The patterns of this module take linear time for any text: nothing
is matched in two ways (possessive quantifiers), and matches begin where words do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from regard.text.segmentations import WITHOUT_SPACES

SpanKind = Literal["urls", "emails", "numbers", "placeholders"]

_WORD = rf"[^\W{WITHOUT_SPACES}]"  # a letter, a digit or an underscore; no Chinese or Japanese
_NOT_IN_WORD = rf"(?<!{_WORD})"

_LABEL = rf"{_WORD}++(?:-++{_WORD}++)*+"
_HOST = rf"{_LABEL}(?:\.{_LABEL})++"
_END = rf"(?:{_WORD}|[/#=&%+$@~-])"  # a character that a URL may end with
_MIDDLE = r"[.,:;!?'*]"  # punctuation after a URL, unless the URL continues
_PATH = rf"(?:{_END}++|{_MIDDLE}++(?={_END})" + "".join(
    rf"|{opening}(?:{_END}|{_MIDDLE})*+{closing}"
    for opening, closing in ((r"\(", r"\)"), (r"\[", r"\]"), (r"\{{1,2}", r"\}{1,2}"))
)  # brackets are part of a URL in pairs
_PATH += ")"
_REST = rf"(?::\d++)?+(?:[/?#]{_PATH}*+)?+"
# Of URLs without a scheme; grouped by length for the lookbehind.
_DOMAINS = ("io|eu", "com|org|net|edu|gov|mil|int|biz|dev|app", "info")
_KNOWN_DOMAIN = "(?:" + "|".join(rf"(?<=\.(?:{names}))" for names in _DOMAINS) + ")"
_URL = (
    rf"{_NOT_IN_WORD}(?<![+.-])(?:[a-z][a-z0-9+.-]{{0,30}}+://|(?:mailto|tel):(?={_END})){_PATH}++"
    rf"|{_NOT_IN_WORD}(?<![@.-])(?:www\.{_HOST}|{_HOST}{_KNOWN_DOMAIN})(?!@){_REST}"
)

_EMAIL = rf"{_NOT_IN_WORD}(?<![.+%-])(?:{_WORD}|[.+%-])++@{_HOST}"

_DIGIT = r"[\d\u00bc-\u00be\u2150-\u215e]"  # or a fraction such as ½
_IN_NUMBER = r"[.,:/'’·\u066b\u066c–-]"  # between digits
_ORDINAL = (  # what makes a number an ordinal or a plural, which differ between languages
    "st|nd|rd|th|s|ers?|e|è?re|[eéè]me|i[eéè]me|nde|de|ste|te[nr]?|[oaºª]"
)
_NUMBER = (
    rf"{_NOT_IN_WORD}(?<!\d{_IN_NUMBER})(?:{_NOT_IN_WORD}[-+−±])?+(?:v(?=\d)|\.(?={_DIGIT}))?+"
    rf"(?:0x[0-9a-f]++|{_DIGIT}++(?:(?:{_IN_NUMBER}|T(?=\d\d:)){_DIGIT}++"
    rf"|[\u00a0\u2009\u202f]\d{{3}}(?!\d))*+(?:e[-+]?+\d++)?+)"
    rf"(?!_|(?:{_ORDINAL})(?!{_WORD}))[%‰°]?+"
)

_PLACEHOLDER = "|".join(
    (
        r"\{{2,3}[^{}]*+\}{2,3}",  # {{name}}
        r"[$#%@]\{[^{}]*+\}",  # ${name}
        r"\{%[^{}%]*+%\}|<%[^<>%]*+%>",  # {% if x %}, <%= x %>
        r"\{\s*+(?:[\w.\[\]()$@/-]++\s*+)?+(?:[:!,|][^{}]*+)?+\}",  # {name}, {0:.2f}, {n, number}
        r"</?\d++\s*+/?>",  # <0>, </0>
        r"%[A-Z][A-Z\d_]++%(?![A-Za-z])",  # %PATH%
        # printf and strftime: %s, %1$s, %(name)d, %-5.2f, %-d; not the % of 50%
        r"%%|(?<!\d)%(?:\(\w[\w.-]*+\)|\d++\$)?+[#0+]*+(?:-?\d++|\*)?+(?:\.(?:\d++|\*))?+"
        r"(?:hh|ll|[hlLqjzt])?[A-Za-z@]",
        rf"(?<!\d)%-[A-Za-z](?!{_WORD})",
        rf"{_NOT_IN_WORD}(?<!\$)\$[A-Za-z_]{_WORD}*+",  # $name
    )
)

_PATTERNS: dict[SpanKind, re.Pattern[str]] = {
    "urls": re.compile(_URL, re.IGNORECASE),
    "emails": re.compile(_EMAIL),
    "numbers": re.compile(_NUMBER, re.IGNORECASE),
    "placeholders": re.compile(_PLACEHOLDER),
}
SPAN_KINDS = tuple(_PATTERNS)
_WORDS: frozenset[SpanKind] = frozenset({"numbers"})  # kinds that a model can translate


class ProtectedSpan(NamedTuple):
    """A part of a text that is protected, and the part of it without marks."""

    start: int
    end: int
    inner_start: int
    inner_end: int
    is_opaque: bool  # whether it is a code rather than words or numbers


@dataclass(frozen=True)
class SpanFinder:
    """Finds the protected spans of texts; pickled for worker processes."""

    opaque: tuple[re.Pattern[str], ...] = ()  # of codes, such as URLs
    readable: tuple[re.Pattern[str], ...] = ()
    marked: re.Pattern[str] | None = None  # its group 1 is protected, and the rest is removed

    @staticmethod
    def of(
        kinds: Sequence[SpanKind],
        patterns: Sequence[str] = (),
        marks: tuple[str, str] | None = None,
    ) -> SpanFinder:
        """The finder for these kinds and patterns, and for text between two marks."""
        return SpanFinder(
            tuple(_PATTERNS[kind] for kind in kinds if kind not in _WORDS),
            (*(_PATTERNS[kind] for kind in kinds if kind in _WORDS), *map(re.compile, patterns)),
            None if marks is None else re.compile(_between(*map(re.escape, marks)), re.DOTALL),
        )

    def find(self, text: str) -> list[ProtectedSpan]:
        """The spans in order; those that overlap or touch are one."""
        spans: list[ProtectedSpan] = []
        position = 0
        for match in self.marked.finditer(text) if self.marked else ():
            if match[1].isspace():
                continue
            spans += self._matches(text, position, match.start())
            spans.append(ProtectedSpan(*match.span(), *match.span(1), is_opaque=False))
            position = match.end()
        return [*spans, *self._matches(text, position, len(text))]

    def _matches(self, text: str, start: int, end: int) -> Iterator[ProtectedSpan]:
        """What the patterns match in a part of a text without marks."""
        matches = sorted(
            (match.start(), match.end(), is_opaque)
            for patterns, is_opaque in ((self.opaque, True), (self.readable, False))
            for pattern in patterns
            for match in pattern.finditer(text, start, end)
            if match.start() < match.end()
        )
        last: ProtectedSpan | None = None
        for first, stop, is_opaque in matches:
            if last is not None and first <= last.end:
                first, stop, is_opaque = last.start, max(last.end, stop), last.is_opaque | is_opaque
            elif last is not None:
                yield last
            last = ProtectedSpan(first, stop, first, stop, is_opaque)
        if last is not None:
            yield last


def _between(opening: str, closing: str) -> str:
    """The pattern of two marks and the text between them, which is group 1."""
    return f"{opening}((?:(?!{opening}|{closing}).)++){closing}"
