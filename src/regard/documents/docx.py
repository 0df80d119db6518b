"""Word documents (.docx): the text of body, tables, text boxes, headers, footers and notes."""

from __future__ import annotations

import re

from regard.documents.document import Document, ReadOptions
from regard.documents.package import Package
from regard.documents.package_document import package_document
from regard.documents.word_runs import WordParagraph, word_name
from regard.documents.xml_tree import Element
from regard.errors import DataError

_TYPES = "[Content_Types].xml"
# Content types of parts with text, in the order in which they are translated.
_PARTS = [
    r"word.*\.main\+xml",
    *(rf"wordprocessingml\.{kind}\+xml" for kind in ("footnotes", "endnotes", "header", "footer")),
]


def read_docx(content: bytes, options: ReadOptions) -> Document:
    """A Word document; its styles, images and comments are copied."""
    package = Package(content, options.name)
    names = _text_parts(package, options.name)
    return package_document(package, names, lambda root: map(WordParagraph, _paragraphs(root)))


def _text_parts(package: Package, name: str) -> list[str]:
    """The names of the parts with text."""
    types = package.parse_xml(_TYPES) if _TYPES in package else []
    listed = {
        (entry.get("PartName") or "").removeprefix("/"): entry.get("ContentType") or ""
        for entry in types
        if isinstance(entry.tag, str)
    }
    parts = [
        part
        for pattern in _PARTS
        for part, kind in listed.items()
        if re.search(pattern + r"\Z", kind)
    ]
    if not any(re.search(_PARTS[0] + r"\Z", listed[part]) for part in parts):
        raise DataError(f"{name} is not a Word document. Check the file and its suffix.")
    return [*dict.fromkeys(parts)]


def _paragraphs(root: Element) -> list[Element]:
    """All paragraphs, those in text boxes within other paragraphs included."""
    return [element for element in root.iter() if word_name(element) == "p"]
