"""A text as the parts that a model translates and the parts that stay as they are.

Line breaks, empty lines and the spaces around a sentence come out where they went in. A line falls
into sentences when it is longer than what the model has seen, or when the model has hardly ever
seen two sentences in a line (it would translate the first and forget the rest).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from regard.models.folder import Training
from regard.text.sentences import pieces_within, sentences

_LINE = re.compile(r"[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
_EDGES = re.compile(r"^(\s*)(.*?)(\s*)$", re.DOTALL)
_RARE = 0.005
_WIDE = re.compile(r"[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]$")


@dataclass(frozen=True)
class Segment:
    """Something to translate (`text`, perhaps empty) and what follows it as it is."""

    before: str
    text: str
    after: str


@dataclass(frozen=True)
class Segments:
    """All of a text, in order."""

    parts: list[Segment]
    was_cut: bool  # a sentence was longer than the model's limit


def segments(text: str, tokens: Callable[[str], int], limit: int, seen: Training) -> Segments:
    """Take a text apart; `tokens` counts the subwords of a piece."""
    parts: list[Segment] = []
    was_cut = False
    end = 0
    for line in _LINE.finditer(text):
        parts += _verbatim(text[end : line.start()])
        for piece, cut in _pieces(line.group(), lambda s: tokens(s.strip()) <= limit, seen):
            parts.append(_trimmed(piece))
            was_cut = was_cut or cut
        end = line.end()
    return Segments(parts + _verbatim(text[end:]), was_cut)


def _verbatim(text: str) -> list[Segment]:
    return [Segment(text, "", "")] if text else []


def _pieces(line: str, fits: Callable[[str], bool], seen: Training) -> Iterator[tuple[str, bool]]:
    """The pieces of a line, each with whether a sentence was cut to make it."""
    one_by_one = seen.several_sentences < _RARE
    for part in sentences(line) if one_by_one else [line]:
        pieces, cut = pieces_within(part, fits)
        yield from ((piece, cut) for piece in pieces)


def _trimmed(piece: str) -> Segment:
    match = _EDGES.match(piece)
    assert match is not None
    return Segment(*match.groups())


def joined(parts: Sequence[Segment], translations: Sequence[str]) -> str:
    """The translated text; `translations` has one entry for each part, empty for empty ones."""
    text = ""
    for number, (part, translation) in enumerate(zip(parts, translations, strict=True)):
        goes_on = part.text and number + 1 < len(parts) and parts[number + 1].text
        after = _between(part.after, translation) if goes_on else part.after
        text += part.before + translation + after
    return text


def _between(gap: str, translation: str) -> str:
    """Between sentences, Chinese and Japanese have no space and other scripts have one."""
    if _WIDE.search(translation):
        return "" if gap == " " else gap
    return gap or " "
