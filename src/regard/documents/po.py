"""Message catalogs of GNU gettext (.po, .pot): `msgid` is translated into `msgstr`.

Only the lines of new translations change: each gets the flag "fuzzy", since it has to be reviewed.
Of plural forms, the first is the translation of `msgid` and all others that of `msgid_plural`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from regard.documents.document import (
    Document,
    DocumentText,
    ReadOptions,
    is_translatable,
)
from regard.documents.encodings import decode
from regard.errors import DataError

_CHARSET = re.compile(rb"Content-Type:[^\"\n]*?charset=([\w.:-]+)", re.IGNORECASE)
_FIELD = re.compile(
    r"(?P<name>msgctxt|msgid|msgid_plural|msgstr(?:\[\d+\])?)?[ \t]*"
    r'"(?P<text>(?:[^"\\]|\\.)*)"[ \t]*\r?\n?\Z'
)
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{2})|(.))")
_CHARACTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\""} | {c: f"\\{e}" for e, c in _CHARACTERS.items()})
_FLAGS = re.compile(r"#,[ \t]*")
_WIDTH = 77  # of a string in its quotes, if strings are wrapped


@dataclass
class _Field:
    """A string with its name, and its lines in the file."""

    start: int
    end: int
    text: str


@dataclass
class _Message:
    """A message, and the lines of its fields and flags."""

    fields: dict[str, _Field] = field(default_factory=dict)
    flags: int | None = None  # the line of its flags, if it has any
    start: int | None = None  # the first line that follows comments, where flags may be

    @property
    def is_complete(self) -> bool:
        """Whether the next comment belongs to the next message."""
        return any(name.startswith("msgstr") for name in self.fields)


class _Target(NamedTuple):
    """A string to translate into a field of a message."""

    message: _Message
    name: str  # of the field
    source: _Field


def read_po(content: bytes, options: ReadOptions) -> Document:
    """Messages without a translation, or all, if translations are replaced."""
    charset = _CHARSET.search(content)
    declared = None if charset is None else charset[1].decode("ascii")
    is_placeholder = declared in (None, "CHARSET")  # as in templates
    decoded = decode(content, options.name, None if is_placeholder else declared)
    lines = re.findall(r"[^\n]*\n|[^\n]+", decoded.text)
    messages = [*_messages(lines, options.name)]
    targets = [target for each in messages for target in _targets(each, options)]

    def write(translations: Sequence[str], language: str | None) -> bytes:
        text = _with_translations(lines, targets, translations)
        return decoded.encode(text, options.name)

    texts = [DocumentText(each.source.text, each.source.start + 1) for each in targets]
    return Document(texts, write, has_markup=False)


def _messages(lines: Sequence[str], name: str) -> Iterator[_Message]:
    message, current = _Message(), ""
    for index, line in enumerate(lines):
        match = _FIELD.match(line)
        is_comment = line.startswith("#")
        begins = is_comment or (match and match["name"] in ("msgctxt", "msgid"))
        if begins and message.is_complete:
            yield message
            message, current = _Message(), ""
        if is_comment:
            current = ""
            if _FLAGS.match(line):
                message.flags = index
            elif line.startswith("#|") and message.start is None:
                message.start = index
        elif match is None and line.strip():
            raise DataError(
                f"{name} has an invalid line {index + 1}: {line.strip()[:80]!r}. Correct it; "
                "`msgfmt --check` lists all errors."
            )
        elif match and match["name"]:
            current = match["name"]
            if current in message.fields:
                raise DataError(
                    f"{name} has a second {current} of the same message in line {index + 1}. "
                    "Correct it."
                )
            message.start = index if message.start is None else message.start
            message.fields[current] = _Field(index, index + 1, _unescaped(match["text"]))
        elif match:
            if not current:
                raise DataError(
                    f"{name} has a string without a keyword in line {index + 1}. Correct it."
                )
            message.fields[current].text += _unescaped(match["text"])
            message.fields[current].end = index + 1
    if message.fields:
        yield message


def _targets(message: _Message, options: ReadOptions) -> Iterator[_Target]:
    """The fields of a message to translate into."""
    source = message.fields.get("msgid")
    names = [name for name in message.fields if name.startswith("msgstr")]
    for number, name in enumerate(names):
        is_plural = number > 0 or len(names) == 1
        used = message.fields.get("msgid_plural", source) if is_plural else source
        is_missing = options.retranslate or not message.fields[name].text
        if is_missing and used and is_translatable(used.text):
            yield _Target(message, name, used)


def _with_translations(
    lines: Sequence[str], targets: Sequence[_Target], translations: Sequence[str]
) -> str:
    """The lines of the file with new translations, which are marked as fuzzy."""
    newline = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    result = [*lines]
    for target, translation in zip(targets, translations, strict=True):
        message, place = target.message, target.message.fields[target.name]
        is_wrapped = target.source.end - target.source.start > 1
        strings = _strings(translation, is_wrapped=is_wrapped)
        last = result[place.end - 1]
        for index in range(place.start, place.end):
            result[index] = ""
        text = newline.join([f"{target.name} {strings[0]}", *strings[1:]])
        result[place.start] = text + (newline if last.endswith("\n") else "")
        _mark_fuzzy(result, message, newline)
    return "".join(result)


def _mark_fuzzy(lines: list[str], message: _Message, newline: str) -> None:
    if message.flags is None:
        assert message.start is not None
        message.flags = message.start
        lines[message.flags] = f"#, fuzzy{newline}{lines[message.flags]}"
        return
    line = lines[message.flags]
    if not re.search(r"\bfuzzy\b", line.split("\n")[0]):
        lines[message.flags] = _FLAGS.sub("#, fuzzy, ", line, count=1)


def _strings(text: str, *, is_wrapped: bool) -> list[str]:
    """A text as quoted strings, one per line of the file."""
    rows = re.findall(r"[^\n]*\n|[^\n]+", text)
    pieces = [piece for row in rows for piece in (_wrapped(row) if is_wrapped else [row])]
    quoted = [f'"{piece.translate(_ESCAPES)}"' for piece in pieces]
    return quoted if len(quoted) == 1 else ['""', *quoted]


def _wrapped(text: str) -> Iterator[str]:
    """Pieces of at most 77 escaped characters where possible, which end with a space."""
    piece = ""
    for word in re.findall(r"\S*\s*", text):
        if piece and len((piece + word.rstrip()).translate(_ESCAPES)) > _WIDTH:
            yield piece
            piece = ""
        piece += word
    if piece:
        yield piece


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        if match[1] or match[2]:
            return chr(int(match[1], 8) if match[1] else int(match[2], 16))
        return _CHARACTERS.get(match[3], match[3])

    return _ESCAPE.sub(character, text)
