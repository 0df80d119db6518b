"""Blocks: sentences with inline markup, as plain text and a tree of elements.

The plain text is what the model translates: without tags, entities decoded, and whitespace
collapsed. Each of its characters keeps its spelling in the source, such as `&eacute;`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from regard.markup.tokens import Token

NodeKind = Literal["element", "empty", "protected"]
Characters = Iterable[tuple[str, str]]  # each with its spelling


@dataclass(frozen=True)
class Node:
    """Inline markup, with the part of the plain text that it contains."""

    kind: NodeKind
    before: str  # the opening tag; of an empty or protected element, all of it
    after: str  # the closing tag
    start: int
    end: int
    children: tuple[Node, ...] = ()
    space_before: bool = False  # whether there is whitespace before and after it in the source
    space_after: bool = False
    separates: bool = False  # whether it separates words, such as a line break
    original: str | None = None  # of a protected span, its text, which the model may not read


@dataclass(frozen=True)
class Spelling:
    """How characters that have a meaning in a markup language are written as text."""

    escapes: Mapping[str, str] = field(default_factory=dict)
    # At the start of a block, text that would change its kind; its group `mark` is escaped.
    block_start: re.Pattern[str] | None = None
    # Elements whose tags begin with these characters cannot be empty.
    never_empty: str = ""


@dataclass(frozen=True)
class Block:
    """Text to translate with inline markup."""

    raw: str
    text: str  # plain
    raws: tuple[str, ...]  # the spelling of each character of `text`
    nodes: tuple[Node, ...]
    spelling: Spelling
    tokens: tuple[Token, ...] = ()  # that it was built from

    @property
    def is_translatable(self) -> bool:
        """Whether there is a letter outside of protected elements."""
        hidden = [False] * len(self.text)
        for node in all_nodes(self.nodes):
            if node.kind == "protected":
                hidden[node.start : node.end] = [True] * (node.end - node.start)
        return any(c.isalpha() and not h for c, h in zip(self.text, hidden, strict=True))

    @property
    def has_markup(self) -> bool:
        """Whether anything has to be put back by alignment."""
        return bool(self.nodes) or any(
            raw != " "
            for character, raw in zip(self.text, self.raws, strict=True)
            if character == " "
        )

    def spellings(self) -> dict[str, str]:
        """How characters of the translation are written.

        A character that the source always writes in another way, as an entity, is written in this
        way; others are escaped if they have a meaning in the markup language.
        """
        spellings: dict[str, str] = {}
        plain = set()
        for character, raw in zip(self.text, self.raws, strict=True):
            if raw == character:
                plain.add(character)
            elif not character.isspace():
                spellings.setdefault(character, raw)
        return {
            **{c: r for c, r in spellings.items() if c not in plain},
            **self._escapes(spellings),
        }

    def _escapes(self, spellings: Mapping[str, str]) -> dict[str, str]:
        """Escapes, in the spelling of the source if it has any."""
        return {c: spellings.get(c, escape) for c, escape in self.spelling.escapes.items()}


class BlockText(str):
    """The source of a block that was parsed as a part of its document.

    Read on its own, it could mean something else: a link in Markdown depends on definitions
    elsewhere in the document.
    """

    block: Block

    def __new__(cls, block: Block) -> BlockText:
        """The text of a block."""
        text = super().__new__(cls, block.raw)
        text.block = block
        return text

    def __reduce__(self) -> tuple[type[BlockText], tuple[Block]]:
        """Pickle the block alone."""
        return BlockText, (self.block,)


def all_nodes(nodes: Iterable[Node]) -> Iterable[Node]:
    """The nodes and all of their descendants."""
    for node in nodes:
        yield node
        yield from all_nodes(node.children)


class _Open:
    """An element whose end has not been reached."""

    def __init__(self, raw: str, start: int, *, space_before: bool) -> None:
        self.raw, self.start, self.space_before = raw, start, space_before
        self.children: list[Node] = []


class BlockBuilder:
    """Builds a block from text and paired tags, in order."""

    def __init__(self, spelling: Spelling) -> None:
        self._spelling = spelling
        self._text: list[str] = []
        self._raws: list[str] = []
        self._stack = [_Open("", 0, space_before=False)]
        # Empty and protected elements after which no text has come; whitespace is theirs.
        self._pending: list[tuple[list[Node], int]] = []
        self._space = False  # whether the last text was whitespace
        self._must_separate = False

    def add_text(self, characters: Characters) -> None:
        """Text with the spelling of each character."""
        for character, raw in characters:
            if character.isspace():
                self._add_space(raw)
            else:
                self._settle(space=False)
                if self._must_separate and self._text and self._text[-1] != " ":
                    self._append(" ", "")
                self._append(character, raw)
                self._space, self._must_separate = False, False

    def open(self, raw: str) -> None:
        """The opening tag of an element."""
        self._stack.append(_Open(raw, len(self._text), space_before=self._space))

    def close(self, raw: str) -> None:
        """The closing tag of the last element that was opened."""
        element = self._stack.pop()
        self._stack[-1].children.append(
            Node(
                "element",
                element.raw,
                raw,
                element.start,
                len(self._text),
                (*element.children,),
                element.space_before,
            )
        )
        if element.start == len(self._text):
            self._await_space()

    def add_empty(self, raw: str, *, separates: bool = False) -> None:
        """An element without text."""
        place = len(self._text)
        node = Node("empty", raw, "", place, place, space_before=self._space, separates=separates)
        self._stack[-1].children.append(node)
        self._must_separate = self._must_separate or separates
        self._await_space()

    def add_protected(
        self, raw: str, characters: Characters, *, original: str | None = None
    ) -> None:
        """An element or a span (with its text) that is copied; the model reads the characters."""
        space_before = self._space
        start = len(self._text)
        self.add_text(characters)
        end = len(self._text)
        node = Node("protected", raw, "", start, end, space_before=space_before, original=original)
        self._stack[-1].children.append(node)
        self._await_space()

    def build(self, tokens: Sequence[Token]) -> Block:
        """The block, which was built from these tokens."""
        assert len(self._stack) == 1
        if self._text and self._text[-1] == " ":
            self._text.pop()
            self._raws.pop()
        length = len(self._text)
        nodes = tuple(_limited(node, length) for node in self._stack[0].children)
        raw = "".join(token.raw for token in tokens)
        text = "".join(self._text)
        return Block(raw, text, (*self._raws,), nodes, self._spelling, (*tokens,))

    def _append(self, character: str, raw: str) -> None:
        self._text.append(character)
        self._raws.append(raw)

    def _add_space(self, raw: str) -> None:
        self._settle(space=True)
        if self._text and (self._text[-1] != " " or self._space):
            if self._text[-1] == " ":
                self._raws[-1] += raw
            else:
                self._append(" ", raw)
        self._space = True

    def _await_space(self) -> None:
        children = self._stack[-1].children
        self._pending.append((children, len(children) - 1))
        self._space = False

    def _settle(self, *, space: bool) -> None:
        """Note whether whitespace follows the last elements without text."""
        for children, index in self._pending:
            if space:
                children[index] = _followed_by_space(children[index])
        self._pending = []


def _followed_by_space(node: Node) -> Node:
    return replace(node, space_after=True)


def _limited(node: Node, length: int) -> Node:
    return replace(
        node,
        start=min(node.start, length),
        end=min(node.end, length),
        children=tuple(_limited(child, length) for child in node.children),
    )
