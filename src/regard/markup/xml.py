"""XML: well-formed documents and fragments of any vocabulary.

Elements are inline if there is text beside them, as in `<para>See <ref>this</ref>.</para>`; all
others are boundaries between blocks. An office format says which of its elements are blocks.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from xml.parsers import expat

from regard.errors import DataError
from regard.markup.block import Block, Spelling
from regard.markup.entities import html_characters
from regard.markup.tokens import Token, text_token, to_parts

_ATTRIBUTE = r"""[^\s=<>"'/]+\s*=\s*(?:"[^"<]*"|'[^'<]*')"""
_MARKUP = re.compile(
    r"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>|<!DOCTYPE(?:[^\[>\"']|\"[^\"]*\"|'[^']*')*"
    r"(?:\[(?:[^\]\"'<]|\"[^\"]*\"|'[^']*'|<!--.*?-->|<[!?](?:[^>\"']|\"[^\"]*\"|'[^']*')*>)*\]\s*)?>"
    rf"|<(?P<slash>/?)(?P<name>[^\s/<>!?]+)(?:\s+{_ATTRIBUTE})*\s*(?P<empty>/?)>",
    re.DOTALL,
)
_UNKNOWN_REFERENCE = re.compile(r"(&[^\s&;#]+;)")
_DECLARATION = re.compile(r"\ufeff?\s*<(?:\?xml\s|!DOCTYPE)")
_NOT_TRANSLATED = re.compile(r"""\s(?:[\w-]+:)?translate\s*=\s*["']no["']""")
_SPELLING = Spelling({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def parse_xml(source: str, ignored: Collection[str]) -> list[str | Block]:
    """The parts of a document or a fragment; `ignored` elements are not translated.

    Raises a DataError with line and column if it is not well-formed.
    """
    check_well_formed(source)
    return to_parts(inline_by_text([*xml_tokens(source)], ignored), _SPELLING)


def check_well_formed(source: str, where: str = "", *, is_document: bool | None = None) -> None:
    """Raise a DataError unless the source is a well-formed document, or a fragment of one.

    By default, a source with a declaration is a document. Entities may be declared in a DTD, which
    is not read.
    """
    if is_document is None:
        is_document = _DECLARATION.match(source) is not None
    start = "" if is_document else "<r>"
    parser = expat.ParserCreate("utf-8")
    parser.UseForeignDTD(True)
    try:
        parser.Parse((start + source + start.replace("<", "</")).encode(), True)
    except expat.ExpatError as error:
        column = error.offset + 1 - (len(start) if error.lineno == 1 else 0)
        raise DataError(
            f"{where + ': ' if where else ''}not well-formed XML at line {error.lineno}, column "
            f"{max(column, 1)}: {expat.ErrorString(error.code)}. Correct it, or read it as HTML, "
            "which tolerates errors."
        ) from None


def xml_tokens(source: str) -> Iterator[Token]:
    """Tags and text of well-formed XML."""
    position = 0
    for match in _MARKUP.finditer(source):
        yield from _text(source[position : match.start()])
        position = match.end()
        name = match["name"]
        if name is None:
            is_doctype = match[0].startswith(("<!DOCTYPE", "<?xml "))
            yield Token("boundary" if is_doctype else "empty", match[0])
        elif match["empty"]:
            yield Token("empty", match[0], name, separates=True)
        else:
            yield Token("close" if match["slash"] else "open", match[0], name)
    yield from _text(source[position:])


def _text(raw: str) -> Iterator[Token]:
    """Text; references to entities that are not predefined are empty elements."""
    for part in _UNKNOWN_REFERENCE.split(raw):
        characters = (*html_characters(part),)
        if _UNKNOWN_REFERENCE.fullmatch(part) and len(characters) > 1:
            yield Token("empty", part)
        elif part:
            yield text_token(part, characters)


def inline_by_text(tokens: Sequence[Token], ignored: Collection[str]) -> list[Token]:
    """The tokens, with elements that have no text beside them as boundaries.

    Elements that are not translated become one token each.
    """
    has_text = _has_text(tokens)
    result: list[Token] = []
    inline = [has_text[-1]]  # of the elements that are open: whether their content is inline
    position = 0
    ends = _ends(tokens)
    while position < len(tokens):
        token = tokens[position]
        if token.kind == "open":
            end = ends[position]
            if token.name in ignored or _NOT_TRANSLATED.search(token.raw):
                result.append(_merge(tokens[position:end], is_inline=inline[-1]))
                position = end
                continue
            result.append(token if inline[-1] else Token("boundary", token.raw, token.name))
            inline.append(inline[-1] or has_text[position])
        elif token.kind == "close":
            inline.pop()
            result.append(token if inline[-1] else Token("boundary", token.raw, token.name))
        else:
            result.append(token)
        position += 1
    return result


def _has_text(tokens: Sequence[Token]) -> dict[int, bool]:
    """For each opening tag (and -1, the whole), whether its element has text of its own."""
    has_text = {-1: False}
    stack = [-1]
    for position, token in enumerate(tokens):
        if token.kind == "open":
            has_text[position] = False
            stack.append(position)
        elif token.kind == "close":
            stack.pop()
        elif token.kind == "text" and not token.raw.isspace():
            has_text[stack[-1]] = True
    return has_text


def _ends(tokens: Sequence[Token]) -> dict[int, int]:
    """For each opening tag, the position after its element."""
    ends: dict[int, int] = {}
    stack: list[int] = []
    for position, token in enumerate(tokens):
        if token.kind == "open":
            stack.append(position)
        elif token.kind == "close":
            ends[stack.pop()] = position + 1
    return ends


def _merge(tokens: Sequence[Token], *, is_inline: bool) -> Token:
    raw = "".join(token.raw for token in tokens)
    if not is_inline:
        return Token("boundary", raw)
    text = [character for token in tokens for character in token.characters]
    return Token("protected", raw, characters=(*text,))
