"""XLIFF 1.2 and 2.x: sources are translated into targets; inline elements are kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy

from regard.documents.document import (
    Document,
    DocumentText,
    Part,
    ReadOptions,
    block_texts,
    with_translations,
)
from regard.documents.inline import InlineContent
from regard.documents.mixed_content import add_mixed_content, fill
from regard.documents.xml_tree import Element, etree, parse_tree, serialize
from regard.errors import DataError

_CONTAINERS = {"g", "pc", "mrk"}
_STARTS = {"bpt": "pt", "bx": "x", "sc": "c", "sm": "m"}
_ENDS = {"ept": "pt", "ex": "x", "ec": "c", "em": "m"}
_UNITS = {"1": "trans-unit", "2": "segment"}  # by version
_STATES = {
    "1": {"state": "needs-review-translation", "state-qualifier": "mt-suggestion"},
    "2": {"state": "translated"},
}


class _Unit:
    """An element with a source and a target."""

    def __init__(self, element: Element, source: Element, target: Element | None) -> None:
        self.source = source  # with its segmentation, if there is one
        self._element, self._target = element, target
        self._content = InlineContent()
        _add(self._content, deepcopy(source))
        self.parts: list[Part] = self._content.parts()

    def write(self, text: str, version: str) -> None:
        """Fill the target with a translated text with tags."""
        target = self._target
        if target is None:
            tag = self.source.tag.rpartition("}")
            target = self.source.makeelement(f"{tag[0]}{tag[1]}target")
            self._element.insert(self._element.index(self.source) + 1, target)
            target.tail = self.source.tail
        fill(target, self._content, text)
        stateful = target if version == "1" else self._element
        for name, value in _STATES[version].items():
            stateful.set(name, value)
        if self._element.get("approved") == "yes":
            self._element.set("approved", "no")


def read_xliff(content: bytes, options: ReadOptions) -> Document:
    """Units without a translation, or all, if translations are replaced."""
    root = parse_tree(content, options.name)
    version = (root.get("version") or "")[:1]
    if _name(root) != "xliff" or version not in _UNITS:
        raise DataError(
            f"{options.name} is not an XLIFF document of version 1.2 or 2. Check the file and its "
            "suffix."
        )
    units = [*_units(root, version, replace=options.retranslate)]
    texts: list[DocumentText] = []
    for unit in units:
        texts += block_texts(unit.parts, unit.source.sourceline)

    def write(translations: Sequence[str], language: str | None) -> bytes:
        remaining = iter(translations)
        for unit in units:
            unit.write(with_translations(unit.parts, remaining), version)
        if language is not None:
            _set_language(root, version, language)
        return serialize(root)

    return Document(texts, write)


def _units(root: Element, version: str, *, replace: bool) -> Iterator[_Unit]:
    for element in root.iter():
        if _name(element) != _UNITS[version] or not _is_translated(element):
            continue
        children = {_name(child): child for child in element}
        source, target = children.get("source"), children.get("target")
        if source is None or _is_empty(source) or (not replace and not _is_empty(target)):
            continue
        segmented = children.get("seg-source")
        yield _Unit(element, source if segmented is None else segmented, target)


def _is_translated(element: Element) -> bool:
    """Whether neither an element nor those around it are marked as not to be translated."""
    for parent in (element, *element.iterancestors()):
        if parent.get("translate") in ("yes", "no"):
            return bool(parent.get("translate") == "yes")
    return True


def _is_empty(element: Element | None) -> bool:
    return element is None or (not len(element) and not (element.text or "").strip())


def _name(element: Element) -> str:
    """The name without its namespace; empty for comments."""
    return etree().QName(element).localname if isinstance(element.tag, str) else ""


def _add(content: InlineContent, container: Element) -> None:
    """Add the text and the elements of a source, or of an element in it."""
    add_mixed_content(content, container, _mark, _add_child)


def _add_child(content: InlineContent, element: Element) -> None:
    name = _name(element)
    if name not in _CONTAINERS:
        if name:
            content.add_empty(element)
    elif element.get("translate") == "no" or element.get("mtype") == "protected":
        content.add_protected(element, "".join(element.itertext()))
    else:
        is_segment = element.get("mtype") == "seg"
        number = content.open(element, is_boundary=is_segment)
        _add(content, element)
        content.close(number, is_boundary=is_segment)


def _mark(child: Element) -> tuple[str, bool] | None:
    """The name of a range, and whether a child is its start; None for other children."""
    name = _name(child)
    if name not in _STARTS | _ENDS:
        return None
    reference = child.get("startRef") or child.get("rid") or child.get("id")
    return f"{(_STARTS | _ENDS)[name]} {reference}", name in _STARTS


def _set_language(root: Element, version: str, language: str) -> None:
    """Set the target language where it is missing."""
    if version == "2":
        elements, name = [root], "trgLang"
    else:
        elements, name = [each for each in root if _name(each) == "file"], "target-language"
    for element in elements:
        if not element.get(name):
            element.set(name, language)
