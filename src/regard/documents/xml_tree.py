"""XML trees, by the package lxml: parsed without entities, DTDs and access to other files."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from regard.errors import ConfigError, DataError

Element = Any  # of lxml, which has no types
# Characters that XML cannot contain.
_FORBIDDEN = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def etree() -> Any:
    """The module `lxml.etree`; raises an error if it is not installed."""
    try:
        from lxml import etree
    except ImportError:
        raise ConfigError(
            "Files in the formats docx, odt and xliff require the package lxml, which is not "
            "installed. Install it: pip install 'regard[documents]'"
        ) from None
    return etree


def parse_tree(content: bytes, where: str) -> Element:
    """The root element of a document; raises an error if it is not well-formed or has a DTD."""
    lxml = etree()
    parser = lxml.XMLParser(
        resolve_entities=False, load_dtd=False, no_network=True, strip_cdata=False, huge_tree=False
    )
    try:
        root = lxml.fromstring(content, parser)
    except (lxml.XMLSyntaxError, ValueError, LookupError) as error:
        reason = getattr(error, "msg", None) or str(error)
        raise DataError(f"{where} is not well-formed XML: {reason}. Check the file.") from None
    if root.getroottree().docinfo.internalDTD is not None:
        raise DataError(
            f"{where} has a document type declaration, which could define harmful entities. Remove "
            "it."
        )
    return root


def serialize(root: Element) -> bytes:
    """A tree in the encoding that it was read in, with a declaration."""
    tree = root.getroottree()
    information = tree.docinfo
    content: bytes = etree().tostring(
        tree,
        encoding=information.encoding or "UTF-8",
        xml_declaration=True,
        standalone=information.standalone or None,
    )
    return content


def local_name(element: Element, is_known: Callable[[str], bool]) -> str:
    """The name of an element in a known namespace; empty for all others, and for comments."""
    if not isinstance(element.tag, str):
        return ""
    namespace, _, name = element.tag.rpartition("}")
    return name if is_known(namespace[1:]) else ""


def xml_text(text: str) -> str:
    """A text without characters that XML cannot contain."""
    return _FORBIDDEN.sub("", text)
