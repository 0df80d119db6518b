"""A text as the parts that a model translates and the parts that stay as they are.

Line breaks, empty lines and the spaces around a sentence come out where they went in. A line falls
into sentences when it is longer than what the model has seen, or when the model has hardly ever
seen two sentences in a line (it would translate the first and forget the rest).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from regard.models.folder import Training
from regard.text.sentences import pieces_within, sentences

_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"  # where `splitlines` cuts
_RARE = 0.005
_WIDE = re.compile(r"[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]$")


class Segment(NamedTuple):
    """Something to translate (`text`, perhaps empty) and what stands around it as it is."""

    before: str
    text: str
    after: str


class Segments(NamedTuple):
    """All of a text, in order."""

    parts: list[Segment]
    was_cut: bool  # a sentence was longer than the model's limit


def segments(text: str, tokens: Callable[[str], int], limit: int, seen: Training) -> Segments:
    """Take a text apart; `tokens` counts the subwords of a piece."""

    def fits(piece: str) -> bool:
        return tokens(piece.strip()) <= limit

    one_by_one = seen.several_sentences < _RARE
    parts: list[Segment] = []
    was_cut = False
    for line in text.splitlines(keepends=True):
        content = line.rstrip(_BREAKS)
        for part in sentences(content) if one_by_one else [content]:
            if fits(part):  # as nearly always
                parts.append(_trimmed(part))
                continue
            pieces, cut = pieces_within(part, fits)
            parts += map(_trimmed, pieces)
            was_cut = was_cut or cut
        if content != line:
            parts.append(Segment(line[len(content) :], "", ""))
    return Segments(parts, was_cut)


def _trimmed(piece: str) -> Segment:
    text = piece.strip()
    if len(text) == len(piece):
        return Segment("", text, "")
    begin = piece.find(text)
    return Segment(piece[:begin], text, piece[begin + len(text) :])


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
