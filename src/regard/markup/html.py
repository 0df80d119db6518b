"""HTML, read as tolerantly as browsers do: no input is an error."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate

from regard.markup.block import Block, Spelling
from regard.markup.entities import html_characters
from regard.markup.tokens import Token, text_token, to_parts

# Possessive quantifiers: malformed tags must not take quadratic time.
_ATTRIBUTES = (
    r"""(?:[\s/]++|[^\s/>=][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s"'>][^\s>]*+)?+)?+|=)*+"""
)
TAG = re.compile(rf"<(?P<slash>/?)(?P<name>[a-zA-Z][^\s/>]*+)(?P<attributes>{_ATTRIBUTES})>")
_MARKUP = re.compile(
    r"<!--(?:>|->|.*?(?:-->|--!>|\Z))|<!\[CDATA\[.*?(?:\]\]>|\Z)|<[!?][^>]*(?:>|\Z)|</>|</[^a-zA-Z>][^>]*>|"
    + TAG.pattern,
    re.DOTALL,
)
_NOT_TRANSLATED = re.compile(
    r"""(?:^|\s)(?:translate\s*=\s*["']?no["'\s/]?|class\s*=\s*(?:"[^"]*(?<![\w-])notranslate(?![\w-])"""
    r"""|'[^']*(?<![\w-])notranslate(?![\w-])|notranslate(?![\w-])))""",
    re.IGNORECASE,
)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_VOID = _names("area base br col embed hr img input link meta param source track wbr")
_SEPARATING = _names("br embed img input")
# Elements that are displayed as blocks of their own.
_BLOCKS = _names(
    """
    address article aside base blockquote body button caption center col colgroup dd details dialog
    dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head
    header hgroup hr html legend li link main menu menuitem meta nav noframes noscript ol optgroup
    option p pre search section select slot summary table tbody td template tfoot th thead title tr
    ul
    """
)
# Elements whose content is no text of the page; the model does not read it either.
_HIDDEN = _names(
    """
    audio canvas embed iframe math noembed noframes object script style svg textarea video xmp
    """
)
_RAW_TEXT = _names("iframe noembed noframes script style textarea title xmp")
SPELLING = Spelling({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def parse_html(source: str, ignored: Collection[str]) -> list[str | Block]:
    """The parts of an HTML document or fragment; `ignored` elements are not translated."""
    return to_parts([*protect([*html_tokens(source)], ignored)], SPELLING)


def html_tokens(source: str) -> Iterator[Token]:
    """Tags, comments and text; elements that are not translated are still several tokens."""
    position, limit = 0, source.rfind(">") + 1
    # Without a limit, each tag without an end would be searched for up to the end of the source.
    while match := _MARKUP.search(source, position, limit):
        if match.start() > position:
            yield _text(source[position : match.start()])
        position = match.end()
        if match["name"] is None and not _is_closed(match[0]):
            yield Token("empty", source[match.start() :])  # a comment without an end
            return
        token = html_token(match)
        yield token
        if token.name in _RAW_TEXT and match["slash"] == "":
            end = re.compile(rf"</{token.name}(?=[\s/>])", re.IGNORECASE).search(source, position)
            stop = end.start() if end else len(source)
            if stop > position:
                yield _text(source[position:stop])
            position = stop
    end = re.compile("<[!?]").search(source, position)
    stop = end.start() if end else len(source)
    if stop > position:
        yield _text(source[position:stop])
    if end:
        yield Token("empty", source[stop:])


def _is_closed(comment: str) -> bool:
    """Whether a comment, a declaration or the like has an end."""
    if comment.startswith("<!--"):
        return comment.endswith(("-->", "--!>"))
    return comment.endswith("]]>" if comment.startswith("<![CDATA[") else ">")


def _text(raw: str) -> Token:
    return text_token(raw, html_characters(raw))


def html_token(match: re.Match[str]) -> Token:
    """The token of a tag or a comment."""
    raw = match[0]
    if match["name"] is None:  # a comment or a declaration
        is_doctype = raw[:9].lower() == "<!doctype"
        return Token("boundary" if is_doctype else "empty", raw)
    name = match["name"].lower()
    if name in _BLOCKS:
        return Token("boundary", raw, name)
    if match["slash"]:
        return Token("close", raw, name)
    if name in _VOID:
        return Token("empty", raw, name, separates=name in _SEPARATING)
    return Token("open", raw, name)


def protect(tokens: Sequence[Token], ignored: Collection[str]) -> Iterator[Token]:
    """The tokens, with elements that are not translated as one token each."""
    ends = _ends(tokens)
    has_letters = (any(c.isalpha() for c, _ in token.characters) for token in tokens)
    letters = [*accumulate(has_letters, initial=0)]  # tokens with letters before each
    position = 0
    while position < len(tokens):
        token = tokens[position]
        end = position + 1
        if _is_opening(token):
            # A superscript without letters is a footnote; the model would read it as a word.
            is_footnote = token.name == "sup" and letters[position] == letters[ends[position]]
            end = ends[position] if is_footnote or is_protected(token, ignored) else end
        if end == position + 1:
            yield token
        else:
            yield _merge(tokens[position:end])
        position = end


def is_block_tag(name: str) -> bool:
    """Whether a tag ends a paragraph."""
    return name.lower() in _BLOCKS | {"pre", "script", "style", "textarea"}


def _is_opening(token: Token) -> bool:
    is_closing = token.kind == "close" or token.raw.startswith("</")
    return bool(token.name) and not is_closing and token.name not in _VOID


def is_protected(token: Token, ignored: Collection[str]) -> bool:
    """Whether an element is not translated."""
    if token.name in _HIDDEN or token.name in ignored:
        return True
    return _NOT_TRANSLATED.search(token.raw, 1 + len(token.name)) is not None


def _ends(tokens: Sequence[Token]) -> dict[int, int]:
    """For each opening tag, the position after its element.

    An element that is not closed, such as a list item, ends at the next boundary.
    """
    ends: dict[int, int] = {}
    opened: dict[str, list[int]] = {}
    for position, token in enumerate(tokens):
        if _is_opening(token):
            opened.setdefault(token.name, []).append(position)
        elif token.name and token.raw.startswith("</") and opened.get(token.name):
            ends[opened[token.name].pop()] = position + 1
    boundary = len(tokens)
    for position in range(len(tokens) - 1, -1, -1):
        if _is_opening(tokens[position]):
            ends.setdefault(position, boundary)
        if tokens[position].kind == "boundary":
            boundary = position
    return ends


def _merge(tokens: Sequence[Token]) -> Token:
    """An element that is not translated as one token."""
    raw = "".join(token.raw for token in tokens)
    if tokens[0].name in _HIDDEN or tokens[0].name == "sup":
        return Token("empty", raw)
    if any(token.kind == "boundary" for token in tokens):
        return Token("boundary", raw)
    text = [character for token in tokens for character in token.characters]
    return Token("protected", raw, characters=(*text,))
