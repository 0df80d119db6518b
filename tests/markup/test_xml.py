"""XML: inline elements by the text beside them, and strict errors."""

from __future__ import annotations

import pytest

from markup.markup_cases import blocks_of, copy_words
from regard.errors import DataError
from regard.markup.xml import check_well_formed, parse_xml


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<para>See <ref>this one</ref>.</para>", ["See this one."]),
        ("<a><b>One two</b><c>Three</c></a>", ["One two", "Three"]),
        ("text <a>and <b>more</b></a>", ["text and more"]),
        ("<a>x <code>no <b>no</b></code></a><code>no</code>", ["x no no"]),
        ('<a its:translate="no">not</a><a>that</a>', ["that"]),
        ("<a>x &custom; y &#233;</a>", ["x y é"]),
        ("<a><![CDATA[<no>]]></a><a>x <![CDATA[no]]> y</a>", ["x y"]),
        ("<?xml version='1.0'?><!DOCTYPE a [<!ENTITY x '>'>]>\n<a>text</a>", ["text"]),
    ],
)
def test_texts_to_translate(source: str, expected: list[str]) -> None:
    parts = parse_xml(source, ("code",))
    assert [block.text for block in blocks_of(parts)] == expected
    check_well_formed(copy_words(parts))


@pytest.mark.parametrize(
    ("source", "where"),
    [
        ("<a><b></a>", "line 1, column 9"),
        ("text\n <a>x", "line 2"),
        ("a & b", "line 1, column 4"),
        ("<?xml version='1.0'?><a></b>", "line 1, column 27"),
    ],
)
def test_errors_have_line_and_column(source: str, where: str) -> None:
    with pytest.raises(DataError, match=f"not well-formed XML at {where}"):
        parse_xml(source, ())


def test_a_document_has_one_root() -> None:
    check_well_formed("<a/><b/>")
    with pytest.raises(DataError, match="after document element"):
        check_well_formed("<a/><b/>", "page.xml", is_document=True)
