"""Plain text: one text per line, as `regard translate` reads standard input."""

from __future__ import annotations

import re
from collections.abc import Sequence

from regard.documents.document import Document, DocumentText, ReadOptions, is_translatable
from regard.documents.encodings import decode

_LINE = re.compile(r"([^\n]*?)(\r?\n|\Z)")


def read_plain(content: bytes, options: ReadOptions) -> Document:
    """Lines with letters are translated; all others and all line breaks are copied."""
    decoded = decode(content, options.name)
    lines = [(match[1], match[2]) for match in _LINE.finditer(decoded.text)]
    texts = [
        DocumentText(line, number)
        for number, (line, _) in enumerate(lines, 1)
        if is_translatable(line)
    ]

    def write(translations: Sequence[str], language: str | None) -> bytes:
        remaining = iter(translations)
        text = "".join(
            (next(remaining) if is_translatable(line) else line) + end for line, end in lines
        )
        return decoded.encode(text, options.name)

    return Document(texts, write, has_markup=False)
