"""Protection of spans in blocks: the model reads them, or stand-ins, and they are copied.

A stand-in is a capital letter in place of a URL, a placeholder and the like. Models translate a
sentence with an unknown name better than one with a code, whose many subwords they translate
one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, cycle, groupby

from regard.markup.block import Block
from regard.markup.tokens import Token, block_parts, text_token
from regard.text.protected import SpanFinder

_WORDS = re.compile(r"\w+")


@dataclass(frozen=True)
class Protection:
    """Which spans are protected, and what the model reads; pickled for worker processes."""

    finder: SpanFinder
    is_readable: Callable[[str], bool]  # whether the model reads a span rather than a stand-in
    stand_ins: tuple[str, ...]

    @property
    def unmarked(self) -> SpanFinder:
        """The finder without marks, which translations do not have."""
        return replace(self.finder, marked=None)

    def protect(self, block: Block) -> list[str | Block]:
        """The block with protected spans, or what is copied if nothing else is left."""
        tokens = self._tokens(block.tokens)
        if not any(token.original is not None for token in tokens):
            return [block]
        return [*block_parts(tokens, block.spelling)]

    def _tokens(self, tokens: Iterable[Token]) -> list[Token]:
        """The tokens with spans as tokens of their own; a span is text without tags inside."""
        split: list[Token] = []
        for kind, group in groupby(tokens, lambda token: token.kind):
            run = [*group]
            split += self._split(run) if kind == "text" else run
        used = {
            word.upper()
            for token in split
            for word in _WORDS.findall("".join(character for character, _ in token.characters))
        }
        stand_ins = cycle([letter for letter in self.stand_ins if letter.upper() not in used])
        return [
            token if token.original is None or token.characters else _read_as(token, stand_ins)
            for token in split
        ]

    def _split(self, texts: Iterable[Token]) -> Iterator[Token]:
        """The spans of texts that follow one another, and the text between them."""
        characters = [*chain.from_iterable(token.characters for token in texts)]
        text = "".join(character for character, _ in characters)
        position = 0
        for span in self.finder.find(text):
            if position < span.start:
                yield _text(characters[position : span.start])
            inner = characters[span.inner_start : span.inner_end]
            original = text[span.inner_start : span.inner_end]
            raw = "".join(raw for _, raw in inner)
            is_read = not span.is_opaque and self.is_readable(original)
            yield Token(
                "protected", raw, characters=(*inner,) if is_read else (), original=original
            )
            position = span.end
        if position < len(characters):
            yield _text(characters[position:])


def _read_as(token: Token, stand_ins: Iterator[str]) -> Token:
    """A span that the model reads as the next stand-in, or as it is if there is none."""
    assert token.original is not None
    read = next(stand_ins, token.original)
    return replace(token, characters=(*zip(read, read, strict=True),))


def _text(characters: Sequence[tuple[str, str]]) -> Token:
    return text_token("".join(raw for _, raw in characters), characters)
