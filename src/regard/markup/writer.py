"""Writes a translation with its markup: words, tags, and the whitespace between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from regard.markup.block import Block, Node
from regard.markup.placement import UNALIGNED, Placed
from regard.markup.words import Word


class _Piece(NamedTuple):
    """A word or a tag of the output."""

    kind: Literal["word", "open", "close", "empty"]
    text: str
    words: tuple[int, int] = (0, 0)  # that it stands for, if it is a word
    # Of an empty element: whether the source has whitespace before and after it.
    space_before: bool = False
    space_after: bool = False
    separates: bool = False


class Writer:
    """Writes the words of a translation with the nodes that were placed between them."""

    def __init__(
        self,
        block: Block,
        source: Sequence[Word],
        translation: str,
        target: Sequence[Word],
        alignment: Sequence[int],
    ) -> None:
        self._block, self._source = block, source
        self._translation, self._target = translation, target
        self._alignment = alignment
        self._spellings = block.spellings()

    def write(self, placed: Sequence[Placed]) -> str:
        """The translation with its markup."""
        text = ""
        tags: list[_Piece] = []
        previous: int | None = None  # the last word
        for piece in self._pieces(placed, 0, len(self._target)):
            if piece.kind != "word":
                tags.append(piece)
                continue
            first, end = piece.words
            text += self._between(tags, previous, first) + piece.text
            previous, tags = end - 1, []
        return text + self._between(tags, previous, None)

    def _pieces(self, placed: Sequence[Placed], start: int, end: int) -> Iterator[_Piece]:
        """The words of an interval and the nodes inside it, in order."""
        position = start
        for node, first, last, children in placed:
            yield from map(self._word, range(position, first))
            if node.kind == "element" and first == last and self._must_have_text(node):
                yield from self._pieces(children, first, last)
            elif node.kind == "element":
                yield _Piece("open", node.before)
                yield from self._pieces(children, first, last)
                yield _Piece("close", node.after)
            elif first < last:
                yield _Piece("word", node.before, (first, last))
            else:
                spaces = node.space_before, node.space_after
                yield _Piece("empty", node.before, (0, 0), *spaces, node.separates)
            position = last
        yield from map(self._word, range(position, end))

    def _must_have_text(self, node: Node) -> bool:
        return node.before[:1] in {*self._block.spelling.never_empty}

    def _word(self, index: int) -> _Piece:
        start, end = self._target[index]
        text = self._translation[start:end]
        spelled = "".join(self._spellings.get(character, character) for character in text)
        copied = self._alignment[index]
        if copied != UNALIGNED:
            first, last = self._source[copied]
            raw = "".join(self._block.raws[first:last])
            if self._block.text[first:last] == text and "<" not in raw:
                spelled = raw
        return _Piece("word", spelled, (index, index + 1))

    def _between(self, tags: Sequence[_Piece], previous: int | None, following: int | None) -> str:
        """Tags and whitespace between two words, or at the start or end of the translation."""
        gap = "" if previous is None or following is None else self._gap(previous, following)
        places = set()  # of whitespace: the numbers of the tags that it is before
        for number, tag in enumerate(tags):
            places |= {number} if tag.space_before else set()
            places |= {number + 1} if tag.space_after else set()
        if previous is None:
            places.discard(0)
        elif following is None:
            places.discard(len(tags))
        elif not gap:
            places = set()
        elif not places and not any(tag.separates for tag in tags):
            closing = [number for number, tag in enumerate(tags) if tag.kind != "close"]
            places = {closing[0] if closing else len(tags)}
        text = ""
        for number in range(len(tags) + 1):
            if number in places:
                text += gap or " "
                gap = " "
            text += tags[number].text if number < len(tags) else ""
        return text

    def _gap(self, previous: int, following: int) -> str:
        """The whitespace between two words, as between the words of the source."""
        gap = self._translation[self._target[previous].end : self._target[following].start]
        before, after = self._alignment[previous], self._alignment[following]
        if gap and before != UNALIGNED and after == before + 1:
            start, end = self._source[before].end, self._source[after].start
            return "".join(self._block.raws[start:end]) or gap
        return gap
