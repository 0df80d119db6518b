"""OpenDocument texts, made and read by odfdo."""

from __future__ import annotations

import random
import re
import zipfile
from contextlib import suppress
from io import BytesIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from odfdo import Document, Element

from documents.samples import odt_sample
from documents.translations import (
    at_random,
    document_of,
    reverse,
    texts_of,
    translated,
    unchanged,
)
from regard.documents.package import Package
from regard.errors import DataError

SPAN = '<text:span text:style-name="B">{}</text:span>'


def opened(content: bytes) -> Document:
    return Document(BytesIO(content))


def with_paragraph(content: str) -> bytes:
    """A document with a paragraph of this XML."""
    document = Document("text")
    document.body.clear()
    document.body.append(Element.from_tag(f"<text:p>{content}</text:p>"))
    buffer = BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def paragraph(content: bytes) -> str:
    """The XML of the first paragraph in the body."""
    xml = Package(content, "x").read_part("content.xml").decode()
    body = xml[xml.index("<office:text") :]
    [text] = re.findall(r"<text:p>(.*?)</text:p>|<text:p/>", body, re.DOTALL)[:1]
    return str(text)


def inner_text(element: Element | None) -> str:
    assert element is not None
    return element.inner_text


def test_formatting_follows_the_words() -> None:
    document = opened(translated(odt_sample(), "odt", reverse))
    [heading] = document.body.headers
    assert heading.text_recursive == "DOG BIG A"
    first, note, link, cell, number = document.body.get_elements("//text:p")[:5]
    assert inner_text(first.get_element("text:span")) == "HOUSE OLD"
    assert note.text_recursive == "CAT. THE ON NOTE A"
    assert inner_text(link.get_element("text:a")) == "PAGE THE"
    assert cell.text_recursive == "DOG ONE"
    assert number.text_recursive == "12.5"
    assert "42" in document.get_formatted_text()


def test_spaces_are_kept_between_words_that_stay_together() -> None:
    content = with_paragraph('A<text:s text:c="2"/>dog')
    assert paragraph(translated(content, "odt")) == 'A<text:s text:c="2"/>DOG'


def test_parts_without_text_are_copied() -> None:
    content = odt_sample()
    before = zipfile.ZipFile(BytesIO(content))
    after = zipfile.ZipFile(BytesIO(translated(content, "odt")))
    changed = [name for name in before.namelist() if before.read(name) != after.read(name)]
    assert changed == ["content.xml"]
    first = after.infolist()[0]
    assert (first.filename, first.compress_type) == ("mimetype", zipfile.ZIP_STORED)


CASES = {
    "nested spans": (
        f"A {SPAN.format('big ' + SPAN.format('old'))} dog",
        f"DOG {SPAN.format(SPAN.format('OLD') + ' BIG')} A",
    ),
    "spaces": ('A<text:s text:c="2"/>dog', "DOG A"),
    "tabs separate texts": ("A dog<text:tab/>x y", "DOG A<text:tab/>Y X"),
    "a tab inside a span": (SPAN.format("a b<text:tab/>c d"), SPAN.format("B A<text:tab/>D C")),
    "line breaks": ("A dog<text:line-break/>sleeps", "<text:line-break/>SLEEPS DOG A"),
    "fields": (
        "page <text:page-number>3</text:page-number> of it",
        "IT OF <text:page-number>3</text:page-number> PAGE",
    ),
    "bookmarks": (
        'A <text:bookmark-start text:name="b"/>dog<text:bookmark-end text:name="b"/>',
        '<text:bookmark-start text:name="b"/>DOG<text:bookmark-end text:name="b"/> A',
    ),
    "soft page breaks": ("A<text:soft-page-break/> dog", "DOG A"),
    "characters of XML": ("a &lt; b &amp; c", "C &amp; B &lt; A"),
    "empty elements": (
        'A<text:bookmark text:name="x"/> dog',
        'DOG A<text:bookmark text:name="x"/>',
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_content_of_paragraphs(name: str) -> None:
    source, expected = CASES[name]
    content = with_paragraph(source)
    assert translated(content, "odt", unchanged) == content
    assert paragraph(translated(content, "odt", reverse)) == expected


pieces = st.sampled_from(
    [
        *(
            "word ",
            "a &amp; b ",
            SPAN.format("x y"),
            SPAN.format("z<text:tab/>" + SPAN.format("q")),
        ),
        *("<text:s/>", "<text:line-break/>", "<text:tab/>", "<text:date>May</text:date>", "\n  "),
        *('<text:bookmark-start text:name="b"/>', '<text:bookmark-end text:name="b"/>'),
        *('<text:a xlink:href="x">to it</text:a>', '<draw:frame draw:name="f"/>'),
        "<text:note><text:note-body><text:p>a note</text:p></text:note-body></text:note>",
    ]
)


@settings(max_examples=30)
@given(content=st.lists(pieces, max_size=9).map("".join), draw=st.randoms(use_true_random=False))
def test_any_translation_has_the_objects_of_its_source(content: str, draw: random.Random) -> None:
    source = with_paragraph(content)
    output = translated(source, "odt", at_random(draw))
    assert objects(output) == objects(source)
    opened(output)


def objects(content: bytes) -> list[str]:
    """The elements of the body other than spaces."""
    body = etree.fromstring(Package(content, "x").read_part("content.xml")).find("{*}body")
    names = (etree.QName(element).localname for element in body.iterdescendants("*"))
    return sorted(name for name in names if name != "s")


@pytest.mark.parametrize("count", [50, 240])
def test_deep_nesting(count: int) -> None:
    nested = '<text:span text:style-name="B">' * count + "a b" + "</text:span>" * count
    content = with_paragraph(nested)
    with suppress(DataError):
        assert objects(translated(content, "odt")) == objects(content)


def test_comments_and_deleted_text_are_copied() -> None:
    content = with_paragraph(
        "a dog<office:annotation><text:p>a comment</text:p></office:annotation>"
    )
    assert [text.strip() for text in texts_of(content, "odt")] == ["a dog"]


def test_headers_and_footers_are_translated() -> None:
    document = Document("text")
    document.body.clear()
    buffer = BytesIO()
    document.save(buffer)
    file = Package(buffer.getvalue(), "x")
    styles = file.read_part("styles.xml").decode()
    page = re.search(r"<style:master-page[^>]*?/?>", styles)
    assert page is not None
    opening = page[0].replace("/>", ">")
    header = f"{opening}<style:header><text:p>the header</text:p></style:header>"
    closing = "</style:master-page>" if page[0].endswith("/>") else ""
    changed = styles.replace(page[0], header + closing)
    content = file.replaced({"styles.xml": changed.encode()})
    assert "the header" in texts_of(content, "odt")
    assert b"THE HEADER" in Package(translated(content, "odt"), "x").read_part("styles.xml")


def test_paragraphs_are_numbered() -> None:
    document = document_of(odt_sample(), "odt")
    assert document.unit == "paragraph"
    assert [text.number for text in document.texts] == [1, 2, 2, 3, 4, 5]


def test_other_packages_are_refused() -> None:
    content = odt_sample()
    sheet = Package(content, "x").replaced({"mimetype": b"application/vnd.oasis.opendocument.x"})
    with pytest.raises(DataError, match="a file is not an OpenDocument text"):
        texts_of(sheet, "odt")
    manifest = b"<manifest><encryption-data/></manifest>"
    protected = Package(content, "x").replaced({"META-INF/manifest.xml": manifest})
    with pytest.raises(DataError, match="a file is protected by a password"):
        texts_of(protected, "odt")
