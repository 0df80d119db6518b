"""Protection of spans in blocks: the model reads them, or stand-ins, and they are copied.

A stand-in is a capital letter in place of a URL, a placeholder and the like. Models translate a
sentence with an unknown name better than one with a code, whose many subwords they translate
one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import cycle, groupby

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
        tokens = [*self._tokens(block.tokens)]
        if not any(token.original is not None for token in tokens):
            return [block]
        return [*block_parts(tokens, block.spelling)]

    def _tokens(self, tokens: Iterable[Token]) -> Iterator[Token]:
        """The tokens with spans as tokens of their own; a span is text without tags inside."""
        runs = [(kind, [*run]) for kind, run in groupby(tokens, lambda token: token.kind)]
        merged = [_merged(run) if kind == "text" else run for kind, run in runs]
        texts = [token.characters for run in merged for token in run if token.kind == "text"]
        used = {
            word.upper()
            for characters in texts
            for word in _WORDS.findall("".join(character for character, _ in characters))
        }
        stand_ins = cycle([letter for letter in self.stand_ins if letter not in used])
        for run in merged:
            for token in run:
                yield from self._split(token, stand_ins) if token.kind == "text" else [token]

    def _split(self, token: Token, stand_ins: Iterator[str]) -> Iterator[Token]:
        """The spans of a text and the text between them."""
        characters = token.characters
        text = "".join(character for character, _ in characters)
        position = 0
        for span in self.finder.find(text):
            if position < span.start:
                yield _text(characters[position : span.start])
            inner = characters[span.inner_start : span.inner_end]
            original = text[span.inner_start : span.inner_end]
            is_readable = not span.is_opaque and self.is_readable(original)
            read = original if is_readable else next(stand_ins, original)
            yield Token(
                "protected",
                "".join(raw for _, raw in inner),
                characters=inner if is_readable else (*zip(read, read, strict=True),),
                original=original,
            )
            position = span.end
        if position < len(characters):
            yield _text(characters[position:])


def _merged(run: list[Token]) -> list[Token]:
    """Texts without tags between them as one text."""
    return [_text([pair for token in run for pair in token.characters])]


def _text(characters: Iterable[tuple[str, str]]) -> Token:
    pairs = (*characters,)
    return text_token("".join(raw for _, raw in pairs), pairs)
