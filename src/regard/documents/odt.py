"""OpenDocument texts (.odt): the text of body, tables, frames, headers, footers and notes."""

from __future__ import annotations

from collections.abc import Iterator

from regard.documents.document import Document, Part, ReadOptions
from regard.documents.inline import InlineContent
from regard.documents.mixed_content import Repeatable, add_mixed_content, fill
from regard.documents.package import Package
from regard.documents.package_document import package_document
from regard.documents.xml_tree import Element, local_name
from regard.errors import DataError

_NAMESPACE = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
_OFFICE = "urn:oasis:names:tc:opendocument:xmlns:office:1.0"
_MANIFEST = "META-INF/manifest.xml"
_MIME_TYPES = (b"application/vnd.oasis.opendocument.text", b"application/vnd.sun.xml.writer")
_CONTENT, _STYLES = "content.xml", "styles.xml"
_NOT_TRANSLATED = {f"{{{_NAMESPACE}}}tracked-changes", f"{{{_OFFICE}}}annotation"}
_CONTAINERS = {"span", "a", "meta"}
_STARTS, _ENDS = {"bookmark-start", "reference-mark-start"}, {"bookmark-end", "reference-mark-end"}


class _Paragraph:
    """A paragraph or heading, as text to translate."""

    def __init__(self, element: Element) -> None:
        self._element = element
        self._content = InlineContent()
        _add(self._content, element)
        self.parts: list[Part] = self._content.parts()

    def write(self, text: str) -> None:
        """Replace the content by a translated text with tags."""
        fill(self._element, self._content, text)


def read_odt(content: bytes, options: ReadOptions) -> Document:
    """An OpenDocument text; its styles, images and comments are copied."""
    package = Package(content, options.name)
    _refuse_others(package, options.name)
    names = [name for name in (_CONTENT, _STYLES) if name in package]
    return package_document(package, names, lambda root: map(_Paragraph, _paragraphs(root)))


def _refuse_others(package: Package, name: str) -> None:
    """Raise an error for other documents, and for encrypted ones."""
    mime_type = package.read_part("mimetype").strip() if "mimetype" in package else b""
    if _CONTENT not in package or not mime_type.startswith(_MIME_TYPES):
        raise DataError(f"{name} is not an OpenDocument text. Check the file and its suffix.")
    if _MANIFEST in package and b"encryption-data" in package.read_part(_MANIFEST):
        raise DataError(f"{name} is protected by a password. Save it without a password.")


def _paragraphs(root: Element) -> Iterator[Element]:
    """All paragraphs and headings, those in frames and notes within other paragraphs included."""
    stack = [root]
    while stack:
        element = stack.pop()
        if element.tag in _NOT_TRANSLATED:
            continue
        if _name(element) in ("p", "h"):
            yield element
        stack.extend(reversed(element))


def _name(element: Element) -> str:
    return local_name(element, _NAMESPACE.__eq__)


def _add(content: InlineContent, container: Element) -> None:
    """Add text and elements of a paragraph, or of an element in it."""
    add_mixed_content(content, container, _mark, _add_child)


def _mark(child: Element) -> tuple[str, bool] | None:
    """The name of a range, and whether a child is its start; None for other children."""
    name = _name(child)
    if name not in _STARTS | _ENDS:
        return None
    return f"{name.rpartition('-')[0]} {child.get(f'{{{_NAMESPACE}}}name')}", name in _STARTS


def _add_child(content: InlineContent, child: Element) -> None:
    name = _name(child)
    if name in _CONTAINERS:
        number = content.open(child)
        _add(content, child)
        content.close(number)
    elif name == "s":
        content.add_character(" ", Repeatable(child))
    elif name == "tab":
        content.add_boundary(child)
    elif name == "line-break":
        content.add_empty(child, separates=True)
    elif name == "soft-page-break" or not isinstance(child.tag, str):
        pass  # a place in the source text that has no meaning in its translation
    elif name and not len(child) and child.text:  # a field, such as a date or a page number
        content.add_protected(child, child.text)
    else:
        content.add_empty(child)
