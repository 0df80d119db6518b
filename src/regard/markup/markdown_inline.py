"""Inline Markdown (CommonMark and GitHub): emphasis, links, images, code spans and HTML tags."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from regard.markup.entities import html_characters
from regard.markup.html import TAG, html_token
from regard.markup.tokens import Token, text_token

_CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_HARD_BREAK = re.compile(r"(?: {2,}|\\)\n")
_AUTOLINK = re.compile(r"<(?:[a-zA-Z][a-zA-Z0-9+.-]{1,31}:[^\s<>]*|[\w.+-]+@[\w-]+(?:\.[\w-]+)+)>")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_FOOTNOTE = re.compile(r"\[\^[^\]\s]{1,999}\]")
_DESTINATION = re.compile(
    r"\(\s*(?:<[^<>\n]*>|[^\s()<]*(?:\([^\s()]*\)[^\s()]*)*)"
    r"(?:\s+(?:\"[^\"]*\"|'[^']*'|\([^()]*\)))?\s*\)"
)
_LABEL = re.compile(r"\[[^\[\]]+\]")
_DELIMITERS = re.compile(r"\*+|_+|~~")
_SPECIAL = re.compile(r"[`\\<\[\]!*_~\n ]")
_MAX_NESTING = 50  # of brackets


@dataclass
class _Run:
    """A run of emphasis characters; it may close, open, and in part remain text."""

    character: str
    count: int
    can_open: bool
    can_close: bool
    closing: list[Token] = field(default_factory=list)
    opening: list[Token] = field(default_factory=list)  # innermost first
    size: int = field(init=False)  # the original count, which the rule of three refers to

    def __post_init__(self) -> None:
        self.size = self.count

    def tokens(self) -> Iterator[Token]:
        """The tags that the run consists of, and its text."""
        yield from self.closing
        if self.count:
            yield text_token(self.character * self.count)
        yield from reversed(self.opening)


def inline_tokens(text: str, labels: Collection[str]) -> list[Token]:
    """The tokens of inline Markdown; `labels` are those of link definitions."""
    items = [*_items(text, labels, 0)]
    _pair([item for item in items if isinstance(item, _Run)])
    return [
        token for item in items for token in (item.tokens() if isinstance(item, _Run) else [item])
    ]


def _items(text: str, labels: Collection[str], depth: int) -> Iterator[Token | _Run]:
    """Tokens, and runs of emphasis characters that are still to be paired."""
    position = start = 0  # text before `position` is tokenized, apart from that from `start` on
    while match := _SPECIAL.search(text, position):
        items, end = _item(text, match.start(), labels, depth)
        if items is None:
            position = match.end()
            continue
        if match.start() > start:
            yield _text(text[start : match.start()])
        yield from items
        position = start = end
    if start < len(text):
        yield _text(text[start:])


def _text(raw: str) -> Token:
    return text_token(raw, html_characters(raw))


def _item(
    text: str, position: int, labels: Collection[str], depth: int
) -> tuple[list[Token | _Run] | None, int]:
    """The markup at a position and its end; None if it is plain text."""
    character = text[position]
    if match := _HARD_BREAK.match(text, position):
        return [Token("empty", match[0], separates=True)], match.end()
    if match := _ESCAPE.match(text, position):
        return [text_token(match[0], [(match[1], match[0])])], match.end()
    if character == "`":
        if match := _CODE.match(text, position):
            return [_protected(match[0], match[2])], match.end()
        end = re.compile("`+").match(text, position)
        assert end is not None
        return [_text(end[0])], end.end()
    if character == "<":
        return _angle(text, position)
    if character in "![":
        return _link(text, position, labels, depth)
    if match := _DELIMITERS.match(text, position):
        return [_run(text, match)], match.end()
    return None, position


def _protected(raw: str, text: str) -> Token:
    return Token("protected", raw, characters=(*zip(text, text, strict=True),))


def _angle(text: str, position: int) -> tuple[list[Token | _Run] | None, int]:
    """An autolink, a comment or an HTML tag."""
    if text.find(">", position) < 0:  # each of many would be searched for up to the end
        return None, position
    if match := _AUTOLINK.match(text, position):
        return [_protected(match[0], match[0][1:-1])], match.end()
    if match := _COMMENT.match(text, position):
        return [Token("empty", match[0])], match.end()
    if match := TAG.match(text, position):
        return [html_token(match)], match.end()
    return None, position


def _link(
    text: str, position: int, labels: Collection[str], depth: int
) -> tuple[list[Token | _Run] | None, int]:
    """An image, a footnote mark or a link."""
    if match := _FOOTNOTE.match(text, position):
        return [Token("empty", match[0])], match.end()
    is_image = text.startswith("![", position)
    begin = position + is_image
    close = _closing_bracket(text, begin) if text.startswith("[", begin) else -1
    if close < 0 or depth == _MAX_NESTING:
        return None, position
    content = text[begin + 1 : close]
    target = _DESTINATION.match(text, close + 1)
    label = _LABEL.match(text, close + 1)
    if target is None and label is not None and normalized_label(label[0][1:-1]) in labels:
        target = label
    if target is not None and is_image:
        return [Token("empty", text[position : target.end()])], target.end()
    if target is not None:
        inner = [*_items(content, labels, depth + 1)]
        name = f"[{depth}"
        closing = Token("close", "]" + target[0], name)
        return [Token("open", "[", name), *_resolved(inner), closing], target.end()
    if normalized_label(content) in labels:  # the text is the label, which must not change
        end = close + 1 + 2 * text.startswith("[]", close + 1)
        return [_protected(text[position:end], content)], end
    return None, position


def _resolved(items: list[Token | _Run]) -> Iterator[Token]:
    """The tokens of a link text, in which emphasis is paired on its own."""
    _pair([item for item in items if isinstance(item, _Run)])
    for item in items:
        yield from item.tokens() if isinstance(item, _Run) else [item]


def normalized_label(label: str) -> str:
    """The label of a link definition, without differences that do not matter."""
    return " ".join(label.split()).casefold()


def _closing_bracket(text: str, position: int) -> int:
    """The position of the bracket that closes the one at a position; -1 if there is none."""
    depth = 0
    skip = re.compile(rf"{_CODE.pattern}|\\.|[\[\]]", re.DOTALL)
    for match in skip.finditer(text, position):
        depth += {"[": 1, "]": -1}.get(match[0], 0)
        if depth == 0:
            return match.start() if match[0] == "]" else -1
        if depth > _MAX_NESTING:
            return -1
    return -1


def _run(text: str, match: re.Match[str]) -> _Run:
    """A run of emphasis characters, with the flanking rules of CommonMark."""
    before = text[match.start() - 1] if match.start() else " "
    after = text[match.end()] if match.end() < len(text) else " "
    left = not after.isspace() and (not _is_mark(after) or before.isspace() or _is_mark(before))
    right = not before.isspace() and (not _is_mark(before) or after.isspace() or _is_mark(after))
    character = match[0][0]
    if character == "_":
        left, right = (
            left and (not right or _is_mark(before)),
            right and (not left or _is_mark(after)),
        )
    return _Run(character, len(match[0]), left, right)


def _is_mark(character: str) -> bool:
    """Whether a character is punctuation or a symbol."""
    return not character.isalnum() and not character.isspace()


def _pair(runs: list[_Run]) -> None:
    """Pair closing with opening runs, as CommonMark does."""
    openers: list[_Run] = []
    # By what a match depends on: how many of the openers do not match, so that many closing runs
    # do not take quadratic time.
    unmatched: dict[tuple[str, bool, int], int] = {}
    number = 0
    for run in runs:
        key = run.character, run.can_open, run.size % 3
        while run.count and run.can_close:
            place = _opener(openers, run, unmatched.get(key, 0))
            if place is None:
                unmatched[key] = len(openers)
                break
            opener = openers[place]
            del openers[place + 1 :]
            unmatched = {other: min(count, place) for other, count in unmatched.items()}
            size = 2 if min(run.count, opener.count) >= 2 else 1
            name = f"{run.character}{id(run)}{(number := number + 1)}"
            opener.opening.append(Token("open", run.character * size, name))
            run.closing.append(Token("close", run.character * size, name))
            opener.count -= size
            run.count -= size
            if not opener.count:
                openers.pop()
        if run.count and run.can_open:
            openers.append(run)


def _opener(openers: list[_Run], closer: _Run, first: int) -> int | None:
    """The index of the last run, from `first` on, that can be closed."""
    for place in range(len(openers) - 1, first - 1, -1):
        opener = openers[place]
        if opener.character != closer.character:
            continue
        both = opener.can_close or closer.can_open
        sizes = opener.size, closer.size
        if both and sum(sizes) % 3 == 0 and any(size % 3 for size in sizes):
            continue
        if closer.character == "~" and opener.count != closer.count:
            continue
        return place
    return None
