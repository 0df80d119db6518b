"""Documents that are packages: paragraphs in some of the XML parts are translated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Protocol

from regard.documents.document import (
    Document,
    DocumentText,
    Part,
    block_texts,
    source_of,
    with_translations,
)
from regard.documents.package import Package
from regard.documents.xml_tree import Element, serialize


class Paragraph(Protocol):
    """A paragraph of a tree."""

    parts: list[Part]

    def write(self, text: str) -> None:
        """Replace the content of the paragraph."""
        ...


def package_document(
    package: Package, names: Sequence[str], paragraphs_of: Callable[[Element], Iterable[Paragraph]]
) -> Document:
    """The paragraphs of these parts of a package; parts whose text does not change are copied."""
    trees = {name: package.parse_xml(name) for name in names}
    paragraphs = {name: [*paragraphs_of(root)] for name, root in trees.items()}
    texts: list[DocumentText] = []
    for number, paragraph in enumerate(chain.from_iterable(paragraphs.values()), 1):
        texts += block_texts(paragraph.parts, number)

    def write(translations: Sequence[str], language: str | None) -> bytes:
        remaining = iter(translations)
        changed = {}
        for name, part in paragraphs.items():
            for paragraph in part:
                text = with_translations(paragraph.parts, remaining)
                if text != source_of(paragraph.parts):
                    paragraph.write(text)
                    changed[name] = trees[name]
        return package.replaced({name: serialize(root) for name, root in changed.items()})

    return Document(texts, write, unit="paragraph")
