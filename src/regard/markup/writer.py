"""Writes a translation with its markup: words, tags, and the whitespace between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple

from regard.markup.block import Block, Node
from regard.markup.copies import is_continued, is_inside_word, protected_nodes
from regard.markup.placement import UNALIGNED, Placed
from regard.markup.words import Word
from regard.text.protected import SpanFinder

_MAX_CONTEXT = 100  # characters beside a span that could make it part of a longer one


class _Piece(NamedTuple):
    """A word or a tag of the output."""

    kind: Literal["word", "open", "close", "empty"]
    text: str
    words: tuple[int, int] = (0, 0)  # that it stands for, if it is a word
    # Of an empty element: whether the source has whitespace before and after it.
    space_before: bool = False
    space_after: bool = False
    separates: bool = False
    has_text: bool = False  # whether it is copied text
    original: str | None = None  # of a protected span, its text


class _Chunk(NamedTuple):
    """A part of the output."""

    raw: str
    plain: str = ""  # nothing for a tag
    is_span: bool = False


class Writer:
    """Writes the words of a translation with the nodes that were placed between them."""

    def __init__(
        self,
        block: Block,
        source: Sequence[Word],
        translation: str,
        target: Sequence[Word],
        alignment: Sequence[int],
        finder: SpanFinder,
    ) -> None:
        self._block, self._source = block, source
        self._translation, self._target = translation, target
        self._alignment = alignment
        self._finder = finder
        self._spellings = block.spellings()
        self._inside_words = {
            node.original
            for node in protected_nodes(block)
            if node.original and is_inside_word(block, node, node.original)
        }

    def write(self, placed: Sequence[Placed]) -> str:
        """The translation with its markup."""
        chunks: list[_Chunk] = []
        tags: list[_Piece] = []
        previous: int | None = None  # the last word
        for piece in self._pieces(placed, 0, len(self._target)):
            if piece.kind != "word":
                tags.append(piece)
                continue
            first, end = piece.words
            chunks += self._between(tags, previous, first)
            chunks.append(self._chunk(piece))
            previous, tags = end - 1, []
        chunks += self._between(tags, previous, None)
        return "".join(chunk.raw for chunk in self._separated(chunks))

    def _chunk(self, piece: _Piece) -> _Chunk:
        if piece.original is not None:
            return _Chunk(piece.text, piece.original, is_span=True)
        if piece.kind != "word":
            return _Chunk(piece.text)
        start, end = self._target[piece.words[0]].start, self._target[piece.words[1] - 1].end
        return _Chunk(piece.text, self._translation[start:end])

    def _separated(self, chunks: Sequence[_Chunk]) -> Iterator[_Chunk]:
        """The chunks, with spaces where a span would become part of a longer one, or of a word."""
        plain = "".join(chunk.plain for chunk in chunks)
        ends = accumulate(len(chunk.plain) for chunk in chunks)
        before = ""
        for chunk, end in zip(chunks, ends, strict=True):
            if chunk.is_span:
                if not self._is_separate(before, chunk.plain, ""):
                    yield _Chunk(" ")
                    before = ""
                if not self._is_separate(before, chunk.plain, plain[end : end + _MAX_CONTEXT]):
                    chunk = _Chunk(chunk.raw + " ", chunk.plain + " ")
            yield chunk
            before = (before + chunk.plain)[-_MAX_CONTEXT:]

    def _is_separate(self, before: str, span: str, after: str) -> bool:
        """Whether a span is a span of its own, and part of no word, between other text."""
        before = before.split(" ")[-1]
        after = after.split(" ")[0]
        text, start = before + span + after, len(before)
        end = start + len(span)
        if self._is_span(span, 0, len(span)) and not self._is_span(text, start, end):
            return False
        return span in self._inside_words or not is_continued(text, start, end)

    def _is_span(self, text: str, start: int, end: int) -> bool:
        return any((span.start, span.end) == (start, end) for span in self._finder.find(text))

    def _pieces(self, placed: Sequence[Placed], start: int, end: int) -> Iterator[_Piece]:
        """The words of an interval and the nodes inside it, in order."""
        position = start
        for node, first, last, children in placed:
            yield from map(self._word, range(position, first))
            is_empty = first == last and not any(map(_has_span, children))
            if node.kind == "element" and is_empty and self._must_have_text(node):
                yield from self._pieces(children, first, last)
            elif node.kind == "element":
                yield _Piece("open", node.before)
                yield from self._pieces(children, first, last)
                yield _Piece("close", node.after)
            elif first < last:
                yield _Piece("word", node.before, (first, last), original=node.original)
            else:
                yield _Piece(
                    "empty",
                    node.before,
                    space_before=node.space_before,
                    space_after=node.space_after,
                    separates=node.separates,
                    has_text=node.kind == "protected" and node.start < node.end,
                    original=node.original,
                )
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

    def _between(
        self, tags: Sequence[_Piece], previous: int | None, following: int | None
    ) -> Iterator[_Chunk]:
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
            places = {*_before_texts(tags)}
        elif any(tag.has_text for tag in tags):
            places = {*_before_texts(tags), *_after_texts(tags)}
        elif not places and not any(tag.separates for tag in tags):
            closing = [number for number, tag in enumerate(tags) if tag.kind != "close"]
            places = {closing[0] if closing else len(tags)}
        for number in range(len(tags) + 1):
            if number in places:
                yield _Chunk(gap or " ", " ")
                gap = " "
            if number < len(tags):
                yield self._chunk(tags[number])

    def _gap(self, previous: int, following: int) -> str:
        """The whitespace between two words, as between the words of the source."""
        gap = self._translation[self._target[previous].end : self._target[following].start]
        before, after = self._alignment[previous], self._alignment[following]
        if gap and before != UNALIGNED and after == before + 1:
            start, end = self._source[before].end, self._source[after].start
            return "".join(self._block.raws[start:end]) or gap
        return gap


def _has_span(placed: Placed) -> bool:
    return placed.node.original is not None or any(map(_has_span, placed.children))


def _before_texts(tags: Sequence[_Piece]) -> Iterator[int]:
    """The places of whitespace before copied texts, outside of the elements that begin there."""
    for number, tag in enumerate(tags):
        if tag.has_text:
            while number > 0 and tags[number - 1].kind == "open":
                number -= 1
            yield number


def _after_texts(tags: Sequence[_Piece]) -> Iterator[int]:
    """The places of whitespace after copied texts, outside of the elements that end there."""
    for number, tag in enumerate(tags, 1):
        if tag.has_text:
            while number < len(tags) and tags[number].kind == "close":
                number += 1
            yield number
