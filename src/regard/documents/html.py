"""HTML documents: the page, its title and description, and attributes that users read."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from regard.documents.document import (
    Document,
    DocumentText,
    Part,
    ReadOptions,
    block_texts,
    with_translations,
)
from regard.documents.encodings import decode
from regard.markup.block import Block, BlockText, Spelling
from regard.markup.entities import html_characters
from regard.markup.html import SPELLING, html_tokens, is_protected, protect
from regard.markup.tokens import Token, text_token, to_parts

_HEAD_SIZE = 1024  # bytes in which browsers look for the declaration of the encoding
_CHARSET = re.compile(
    rb"""<meta[^>]+?charset\s*=\s*["']?\s*([\w.:-]+)|<\?xml[^>]+?encoding\s*=\s*["']([\w.:-]+)""",
    re.IGNORECASE,
)
_ATTRIBUTE = re.compile(
    r"""(?P<name>[^\s/>="'<]+)"""
    r"""(?:\s*=\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<unquoted>[^\s"'>]+)))?"""
)
_LANGUAGE = re.compile(r"""(?<=\s)((?:xml:)?lang\s*=\s*)(?:"[^"]*"|'[^']*'|[^\s"'>]+)""", re.I)
_TRANSLATED = {"alt", "title", "placeholder", "aria-label"}
_BUTTONS = {"submit", "button", "reset"}  # inputs whose value is displayed
_META = {  # names and properties of meta elements whose content is displayed, as in previews
    *("description", "og:title", "og:description", "og:image:alt"),
    *("twitter:title", "twitter:description", "twitter:image:alt"),
}
_MARKS = range(0xE000, 0xF900)  # private use


class _Attribute(NamedTuple):
    """The value of an attribute as text to translate, and the line of its tag."""

    parts: list[Part]
    line: int


def read_html(content: bytes, options: ReadOptions) -> Document:
    """A page or a fragment, read as tolerantly as browsers do."""
    declaration = _CHARSET.search(content[:_HEAD_SIZE])
    declared = declaration and (declaration[1] or declaration[2]).decode("ascii")
    decoded = decode(content, options.name, declared)
    tokens = [*protect([*html_tokens(decoded.text)], {name.lower() for name in options.ignored})]
    extracted = _Attributes(decoded.text)
    parts = to_parts([extracted.without_values(token) for token in tokens], SPELLING)
    texts = [*numbered_blocks(parts)]
    for attribute in extracted.attributes:
        texts += block_texts(attribute.parts, attribute.line)

    def write(translations: Sequence[str], language: str | None) -> bytes:
        remaining = iter(translations)
        text = with_translations(parts, remaining)
        text = extracted.with_values(text, remaining)
        if language is not None:
            text = _with_language(text, language)
        return decoded.encode(text, options.name, "xmlcharrefreplace")

    return Document(texts, write)


def numbered_blocks(parts: Sequence[Part]) -> Iterator[DocumentText]:
    """The blocks of a text with the numbers of the lines that they begin in."""
    line = 1
    for part in parts:
        if isinstance(part, Block):
            yield DocumentText(BlockText(part), line)
            line += part.raw.count("\n")
        else:
            line += part.count("\n")


class _Attributes:
    """Values of attributes, which are replaced by numbered marks until they are translated."""

    def __init__(self, source: str) -> None:
        self.attributes: list[_Attribute] = []
        used = {*source}
        self._mark = next((chr(code) for code in _MARKS if chr(code) not in used), None)
        self._line = 1

    def without_values(self, token: Token) -> Token:
        """A token whose values to translate are replaced by marks."""
        raw = token.raw
        if token.name and self._mark and token.kind != "close" and not is_protected(token, ()):
            raw = self._extract(raw, token.name)
        self._line += token.raw.count("\n")
        if raw == token.raw:
            return token
        return Token(token.kind, raw, token.name, token.characters, token.separates)

    def _extract(self, raw: str, name: str) -> str:
        attributes = [*_ATTRIBUTE.finditer(raw, 1 + len(name))]
        values = {
            match["name"].lower(): next(filter(None, match.group(2, 3, 4)), "").lower()
            for match in attributes
        }
        names = _translated_attributes(name, values)
        result, end = "", 0
        for match in attributes:
            quote = "double" if match["double"] is not None else "single"
            if match["name"].lower() not in names or not match[quote]:
                continue
            parts = _value_parts(match[quote], '"' if quote == "double" else "'")
            if any(isinstance(part, Block) for part in parts):
                result += f"{raw[end : match.start(quote)]}{self._mark}{len(self.attributes)};"
                end = match.end(quote)
                self.attributes.append(_Attribute(parts, self._line))
        return result + raw[end:]

    def with_values(self, text: str, translations: Iterator[str]) -> str:
        """A text with translated values in place of the marks."""
        if not self.attributes:
            return text
        values = [with_translations(each.parts, translations) for each in self.attributes]
        return re.sub(f"{self._mark}(\\d+);", lambda match: values[int(match[1])], text)


def _translated_attributes(tag: str, values: dict[str, str]) -> Collection[str]:
    """The attributes of a tag that users read."""
    if tag == "meta":
        name = values.get("name") or values.get("property") or ""
        return {"content"} if name in _META else ()
    if tag == "input" and values.get("type") in _BUTTONS:
        return _TRANSLATED | {"value"}
    return _TRANSLATED


def _value_parts(value: str, quote: str) -> list[Part]:
    """The value of an attribute, in which there is no markup."""
    escapes = {**SPELLING.escapes, quote: "&quot;" if quote == '"' else "&#39;"}
    return to_parts([text_token(value, html_characters(value))], Spelling(escapes))


def _with_language(text: str, language: str) -> str:
    """A page whose root element declares another language, if it declares any."""
    root = re.search(r"<html(?=[\s>])[^<>]*>", text, re.IGNORECASE)
    if root is None:
        return text
    value = language.replace('"', "")
    tag = _LANGUAGE.sub(lambda match: f'{match[1]}"{value}"', root[0])
    return text[: root.start()] + tag + text[root.end() :]
