"""Translations of documents without a model."""

from __future__ import annotations

import random
from collections.abc import Callable

from markup.markup_cases import copy_words, reverse_words, translate_at_random
from regard.documents.config import FileFormat
from regard.documents.document import Document, ReadOptions
from regard.documents.formats import read_document
from regard.markup.block import BlockText

Translate = Callable[[str], str]


def uppercase(text: str) -> str:
    """The words in uppercase, with the markup of the text."""
    return copy_words([text.block]) if isinstance(text, BlockText) else text.upper()


def reverse(text: str) -> str:
    """The words in uppercase and in reverse order, with the markup of the text."""
    if isinstance(text, BlockText):
        return reverse_words([text.block])
    return " ".join(reversed(text.upper().split(" ")))


def unchanged(text: str) -> str:
    """The text itself."""
    return text


def at_random(draw: random.Random) -> Translate:
    """A function to words in any order, with new words and any alignment."""

    def translate(text: str) -> str:
        assert isinstance(text, BlockText)
        return translate_at_random([text.block], draw)

    return translate


def document_of(content: bytes | str, format: FileFormat, *, retranslate: bool = False) -> Document:
    """A document that has been read."""
    data = content.encode() if isinstance(content, str) else content
    return read_document(data, format, ReadOptions("a file", ("code", "pre"), retranslate))


def texts_of(content: bytes | str, format: FileFormat) -> list[str]:
    """The texts of a document."""
    return [str(text.text) for text in document_of(content, format).texts]


def translated(
    content: bytes | str,
    format: FileFormat,
    translate: Translate = uppercase,
    language: str | None = None,
    *,
    retranslate: bool = False,
) -> bytes:
    """The document with the translations of its texts."""
    document = document_of(content, format, retranslate=retranslate)
    return document.write([translate(text.text) for text in document.texts], language)
