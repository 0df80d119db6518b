"""Markdown documents (CommonMark and GitHub); front matter and code are copied."""

from __future__ import annotations

from collections.abc import Sequence

from regard.documents.document import Document, ReadOptions, with_translations
from regard.documents.encodings import decode
from regard.documents.html import numbered_blocks
from regard.markup.markdown import parse_markdown


def read_markdown(content: bytes, options: ReadOptions) -> Document:
    """A Markdown document."""
    decoded = decode(content, options.name)
    parts = parse_markdown(decoded.text, {name.lower() for name in options.ignored})

    def write(translations: Sequence[str], language: str | None) -> bytes:
        return decoded.encode(with_translations(parts, iter(translations)), options.name)

    return Document([*numbered_blocks(parts)], write)
