"""Tokens of markup languages, and the parts that they are grouped into: copied text and blocks.

A lexer of a markup language returns tokens whose raw texts are the source when concatenated. Tokens
between two boundaries (block elements) form one block, unless an inline element begins in one block
and ends in another: its tags are boundaries, too. All tags of a block are therefore paired.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from regard.markup.block import Block, BlockBuilder, Spelling

Kind = Literal["text", "open", "close", "empty", "protected", "boundary"]
_MAX_DEPTH = 200  # of nested inline elements; deeper ones are boundaries


@dataclass(frozen=True)
class Token:
    """A piece of marked-up text.

    Kinds: text; the tags of an inline element; an empty inline element; an inline element that is
    not translated; a boundary between blocks.
    """

    kind: Kind
    raw: str
    name: str = ""  # of an element; opening and closing tags of the same name are paired
    # The characters of a text with their spelling; of a protected element, what the model reads.
    characters: tuple[tuple[str, str], ...] = ()
    separates: bool = False  # an empty element that separates words, such as a line break
    original: str | None = None  # of a protected span of text: the text


def text_token(raw: str, characters: Iterable[tuple[str, str]] | None = None) -> Token:
    """Text; by default, each character is spelled as itself."""
    spelled = zip(raw, raw, strict=True) if characters is None else characters
    return Token("text", raw, characters=(*spelled,))


def to_parts(tokens: Sequence[Token], spelling: Spelling) -> list[str | Block]:
    """The text to copy and the blocks to translate, in order."""
    parts: list[str | Block] = []
    for part in _runs(tokens, _boundaries(tokens)):
        if isinstance(part, str):
            parts.append(part)
        else:
            parts += block_parts(part, spelling)
    return parts


def _boundaries(tokens: Sequence[Token]) -> set[int]:
    """The indices of boundaries, and of inline tags without a partner in the same block."""
    boundaries = {i for i, token in enumerate(tokens) if token.kind == "boundary"}
    while True:
        unpaired = _unpaired(tokens, boundaries)
        if not unpaired:
            return boundaries
        boundaries |= unpaired


def _unpaired(tokens: Sequence[Token], boundaries: set[int]) -> set[int]:
    unpaired: set[int] = set()
    stack: list[int] = []  # opening tags
    for i, token in enumerate(tokens):
        if i in boundaries:
            unpaired.update(stack)
            stack = []
        elif token.kind == "open":
            stack.append(i)
            if len(stack) > _MAX_DEPTH:
                unpaired.add(stack.pop())
        elif token.kind == "close":
            depth = len(stack) - 1
            while depth >= 0 and tokens[stack[depth]].name != token.name:
                depth -= 1
            if depth < 0:
                unpaired.add(i)
            else:
                unpaired.update(stack[depth + 1 :])
                del stack[depth:]
    return unpaired.union(stack)


def _runs(tokens: Sequence[Token], boundaries: set[int]) -> Iterator[str | list[Token]]:
    """Raw boundaries, and the tokens between them."""
    run: list[Token] = []
    for i, token in enumerate(tokens):
        if i in boundaries:
            if run:
                yield run
                run = []
            yield token.raw
        else:
            run.append(token)
    if run:
        yield run


def block_parts(run: Sequence[Token], spelling: Spelling) -> Iterator[str | Block]:
    """The block of a run, between what is copied at its edges; one without letters is copied."""
    builder = BlockBuilder(spelling)
    before, tokens, after = _without_edges(run)
    for token in tokens:
        if token.kind == "text":
            builder.add_text(token.characters)
        elif token.kind == "open":
            builder.open(token.raw)
        elif token.kind == "close":
            builder.close(token.raw)
        elif token.kind == "protected":
            builder.add_protected(token.raw, token.characters, original=token.original)
        else:
            builder.add_empty(token.raw, separates=token.separates)
    block = builder.build(tokens)
    yield before
    yield block if block.is_translatable else block.raw
    yield after


def _without_edges(run: Sequence[Token]) -> tuple[str, list[Token], str]:
    """The run between the whitespace and the empty elements at its edges."""
    before, rest = _split_edge(run)
    after, inner = _split_edge([_reversed(token) for token in reversed(rest)])
    end = "".join(token.raw for token in reversed([*map(_reversed, after)]))
    return "".join(token.raw for token in before), [*map(_reversed, reversed(inner))], end


def _split_edge(run: Sequence[Token]) -> tuple[list[Token], list[Token]]:
    """The whitespace and empty elements that a run begins with, and the rest."""
    for position, token in enumerate(run):
        if token.kind == "text":
            count = 0
            while count < len(token.characters) and token.characters[count][0].isspace():
                count += 1
            if count < len(token.characters):
                space, rest = token.characters[:count], token.characters[count:]
                return [*run[:position], _spelled(space)], [_spelled(rest), *run[position + 1 :]]
        elif token.kind != "empty":
            return [*run[:position]], [*run[position:]]
    return [*run], []


def _spelled(characters: Sequence[tuple[str, str]]) -> Token:
    return text_token("".join(raw for _, raw in characters), characters)


def _reversed(token: Token) -> Token:
    """Text with its characters in reverse order."""
    return _spelled(token.characters[::-1]) if token.kind == "text" else token
