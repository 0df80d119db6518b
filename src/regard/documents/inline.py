"""Inline content of XML formats as blocks: each element is a tag with a number.

A format adds the text and the elements of a paragraph in order. The translation is read back as a
sequence of events, from which the format builds the elements again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

from regard.documents.document import Part
from regard.documents.xml_tree import xml_text
from regard.markup.block import Spelling
from regard.markup.tokens import Kind, Token, text_token, to_parts

_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_SPELLING = Spelling(_ESCAPES)
_EVENT = re.compile(r"<(?P<slash>/?)(?P<number>\d+)(?P<empty>/?)>|[^<]+")


class Event(NamedTuple):
    """Text, or the beginning or end of an element, or an element without text."""

    kind: Literal["text", "open", "close", "empty"]
    text: str
    item: Any = None  # what was added for the element


class InlineContent:
    """The content of a paragraph as tokens; `items` are what the numbers of tags stand for."""

    def __init__(self) -> None:
        self._tokens: list[Token] = []
        self._items: list[Any] = []

    def add_text(self, text: str) -> None:
        """Text of the paragraph."""
        if text:
            characters = [(character, _ESCAPES.get(character, character)) for character in text]
            raw = "".join(spelling for _, spelling in characters)
            self._tokens.append(text_token(raw, characters))

    def add_character(self, character: str, item: Any) -> None:
        """An element that stands for a character."""
        raw = self._empty_tag(item)
        self._tokens.append(text_token(raw, [(character, raw)]))

    def add_empty(self, item: Any, *, separates: bool = False) -> None:
        """An element without text; it separates words if it is displayed as something."""
        self._tokens.append(Token("empty", self._empty_tag(item), separates=separates))

    def add_protected(self, item: Any, text: str) -> None:
        """An element whose text is copied, and read by the model."""
        spelled = zip(text, text, strict=True)
        self._tokens.append(Token("protected", self._empty_tag(item), characters=(*spelled,)))

    def add_boundary(self, item: Any) -> None:
        """An element between two texts that are translated separately."""
        self._tokens.append(Token("boundary", self._empty_tag(item)))

    def open(self, item: Any, *, is_boundary: bool = False) -> int:
        """The beginning of an element with text; returns its number."""
        number = self._number(item)
        kind: Kind = "boundary" if is_boundary else "open"
        self._tokens.append(Token(kind, f"<{number}>", f"{number}"))
        return number

    def close(self, number: int, *, is_boundary: bool = False) -> None:
        """The end of an element."""
        kind: Kind = "boundary" if is_boundary else "close"
        self._tokens.append(Token(kind, f"</{number}>", f"{number}"))

    def parts(self) -> list[Part]:
        """The text to copy and the blocks to translate."""
        return to_parts(self._tokens, _SPELLING)

    def events(self, text: str) -> Iterator[Event]:
        """The events of a text with numbered tags."""
        for match in _EVENT.finditer(text):
            if match["number"] is None:
                yield Event("text", _unescaped(match[0]))
                continue
            kind: Literal["open", "close", "empty"] = "close" if match["slash"] else "open"
            yield Event("empty" if match["empty"] else kind, "", self._items[int(match["number"])])

    def _empty_tag(self, item: Any) -> str:
        return f"<{self._number(item)}/>"

    def _number(self, item: Any) -> int:
        self._items.append(item)
        return len(self._items) - 1


def _unescaped(text: str) -> str:
    for character, escape in reversed(_ESCAPES.items()):
        text = text.replace(escape, character)
    return xml_text(text)


def nested_pairs(marks: Sequence[tuple[str, bool] | None]) -> dict[int, int]:
    """The positions of starts of ranges with those of their ends, where ranges are nested.

    A mark has the name of a range, and says whether it is its start. Ranges that overlap with
    others, or have no start or end, are left out.
    """
    pairs: dict[int, int] = {}
    opened: list[tuple[str, int]] = []
    depths: dict[str, list[int]] = {}  # in `opened`, by name
    for position, mark in enumerate(marks):
        if mark is None:
            continue
        name, is_start = mark
        if is_start:
            depths.setdefault(name, []).append(len(opened))
            opened.append((name, position))
        elif depths.get(name):
            depth = depths[name][-1]
            pairs[opened[depth][1]] = position
            while len(opened) > depth:
                depths[opened.pop()[0]].pop()
    return pairs
