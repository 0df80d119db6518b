"""Word documents, made and read by python-docx."""

from __future__ import annotations

import random
import re
import zipfile
from contextlib import suppress
from io import BytesIO
from typing import Any

import docx
import pytest
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls, qn
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from lxml.etree import XMLSyntaxError

from documents.samples import docx_sample
from documents.translations import (
    at_random,
    document_of,
    reverse,
    texts_of,
    translated,
    unchanged,
    uppercase,
)
from markup.markup_cases import blocks_of
from regard.documents.document import with_translations
from regard.documents.word_runs import WordParagraph
from regard.errors import DataError
from regard.markup.block import BlockText

BOLD, ITALIC = "<w:rPr><w:b/></w:rPr>", "<w:rPr><w:i/></w:rPr>"
IMAGE = '<w:r><w:pict><v:rect xmlns:v="urn:schemas-microsoft-com:vml"/></w:pict></w:r>'
NOTE = f'<w:r>{BOLD}<w:footnoteReference w:id="2"/></w:r>'


def opened(content: bytes) -> Any:
    return docx.Document(BytesIO(content))


def run(text: str, properties: str = "") -> str:
    return f'<w:r>{properties}<w:t xml:space="preserve">{text}</w:t></w:r>'


def mark(kind: str) -> str:
    return f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'


def field(instruction: str, result: str) -> str:
    instructions = f"<w:r><w:instrText> {instruction} </w:instrText></w:r>"
    return mark("begin") + instructions + mark("separate") + result + mark("end")


def with_paragraph(content: str) -> bytes:
    """A document with a paragraph of this XML."""
    document = docx.Document()
    document.element.body.insert(0, parse_xml(f"<w:p {nsdecls('w')}>{content}</w:p>"))
    buffer = BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def paragraph(content: bytes) -> str:
    """The XML of the first paragraph, without namespaces and attributes about spaces."""
    with zipfile.ZipFile(BytesIO(content)) as file:
        xml = file.read("word/document.xml").decode()
    [text] = re.findall(r"<w:p(?: [^>]*)?>(.*?)</w:p>|<w:p/>", xml)[:1]
    return re.sub(r' (?:xml:space|xmlns:\w+)="[^"]*"', "", text)


def plain(xml: str) -> str:
    """XML as `paragraph` returns it."""
    return re.sub(r' (?:xml:space|xmlns:\w+)="[^"]*"', "", xml)


def runs(paragraph: Any) -> list[tuple[str, bool | None, bool | None]]:
    return [(run.text, run.bold, run.italic) for run in paragraph.runs]


def test_formatting_follows_the_words() -> None:
    document = opened(translated(docx_sample(), "docx", reverse))
    heading, first, link, page, number, outside = document.paragraphs
    assert (heading.text, heading.style.name) == ("DOG BIG A", "Heading 1")
    assert runs(first) == [
        *(("SLEEP", None, None), ("", None, None), (". ", None, None), ("CAT THE", None, True)),
        *((" AND ", None, None), ("HOUSE OLD", True, None), (" THE", None, None)),
        *(("\t", None, None), ("NOW.", None, None)),
    ]
    assert len(document.inline_shapes) == 1
    assert [(each.text, each.fragment) for each in link.hyperlinks] == [("PAGE THE", "place")]
    assert page.text == "7 PAGE ON IS IT"
    assert number.text == "42"
    assert [cell.text for cell in document.tables[0].row_cells(0)] == ["DOG ONE", "12.5"]
    assert document.sections[0].header.paragraphs[0].text == "HEADER THE"
    assert outside.text == "OUTSIDE"
    assert "BOX THE INSIDE" in outside._p.xml


def test_parts_without_text_are_copied() -> None:
    content = docx_sample()
    before = zipfile.ZipFile(BytesIO(content))
    after = zipfile.ZipFile(BytesIO(translated(content, "docx")))
    changed = [name for name in before.namelist() if before.read(name) != after.read(name)]
    assert changed == ["word/document.xml", "word/header1.xml"]


CASES = {
    "same formatting in several runs": (
        run("A b", "<w:rPr><w:lang w:val='en'/></w:rPr>") + "<w:proofErr/>" + run("ig dog."),
        run("DOG. BIG A", '<w:rPr><w:lang w:val="en"/></w:rPr>'),
    ),
    "invisible formatting": (
        run("A big ", "<w:rPr><w:rFonts w:hint='eastAsia'/></w:rPr>")
        + run("dog.", "<w:rPr><w:spacing w:val='3'/></w:rPr>"),
        run("DOG. BIG A", '<w:rPr><w:rFonts w:hint="eastAsia"/></w:rPr>'),
    ),
    "most text decides on the formatting around elements": (
        run("A big dog ", BOLD) + run("sleeps"),
        run("SLEEPS") + run(" DOG BIG A", BOLD),
    ),
    "line breaks": (
        run("A dog") + "<w:r><w:br/></w:r>" + run("sleeps"),
        "<w:r><w:br/></w:r>" + run("SLEEPS DOG A"),
    ),
    "tabs and page breaks separate texts": (
        run("A dog") + "<w:r><w:tab/></w:r>" + run("sleeps") + '<w:r><w:br w:type="page"/></w:r>',
        run("DOG A") + "<w:r><w:tab/></w:r>" + run("SLEEPS") + '<w:r><w:br w:type="page"/></w:r>',
    ),
    "notes": (run("A dog") + NOTE + run(" sleeps."), run("SLEEPS. DOG") + NOTE + run(" A")),
    "fields are copied": (
        run("See ") + field("REF x", run("Figure 1")) + run(" there"),
        run("THERE ") + field("REF x", run("Figure 1")) + run(" SEE"),
    ),
    "text of link fields is translated": (
        run("See ") + field('HYPERLINK "x"', run("my dog", BOLD)) + run(" there"),
        run("THERE ") + field('HYPERLINK "x"', run("DOG MY", BOLD)) + run(" SEE"),
    ),
    "simple fields": (
        '<w:fldSimple w:instr="DATE">' + run("May") + "</w:fldSimple>" + run(" is near"),
        run("NEAR IS ") + '<w:fldSimple w:instr="DATE">' + run("May") + "</w:fldSimple>",
    ),
    "fields over several paragraphs": (
        mark("begin") + "<w:r><w:instrText>TOC</w:instrText></w:r>" + mark("separate") + run("A b"),
        mark("begin") + "<w:r><w:instrText>TOC</w:instrText></w:r>" + mark("separate") + run("B A"),
    ),
    "bookmarks": (
        run("A ") + '<w:bookmarkStart w:id="1"/>' + run("dog") + '<w:bookmarkEnd w:id="1"/>',
        '<w:bookmarkStart w:id="1"/>' + run("DOG") + '<w:bookmarkEnd w:id="1"/>' + run(" A"),
    ),
    "tracked changes": (
        run("A dog ") + "<w:ins>" + run("sleeps") + "</w:ins><w:del><w:r><w:delText>x</w:delText>"
        "</w:r></w:del>",
        "<w:ins>" + run("SLEEPS") + "</w:ins>" + run(" DOG A") + "<w:del><w:r><w:delText>x"
        "</w:delText></w:r></w:del>",
    ),
    "content controls": (
        "<w:sdt><w:sdtPr/><w:sdtContent>" + run("A dog") + "</w:sdtContent></w:sdt>" + run(" x"),
        run("X ") + "<w:sdt><w:sdtPr/><w:sdtContent>" + run("DOG A") + "</w:sdtContent></w:sdt>",
    ),
    "hidden text is copied": (
        run("A dog") + run("XE", "<w:rPr><w:vanish/></w:rPr>"),
        run("DOG A") + run("XE", "<w:rPr><w:vanish/></w:rPr>"),
    ),
    "special hyphens": (
        "<w:r><w:t>A e</w:t><w:noBreakHyphen/><w:t>m</w:t><w:softHyphen/><w:t>ail</w:t></w:r>",
        run("E") + "<w:r><w:noBreakHyphen/></w:r>" + run("MAIL A"),
    ),
    "characters of XML": (run("A &lt;b&gt; &amp; c"), run("C &amp; &lt;B&gt; A")),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_content_of_paragraphs(name: str) -> None:
    source, expected = CASES[name]
    content = with_paragraph(source)
    assert translated(content, "docx", unchanged) == content
    assert paragraph(translated(content, "docx", reverse)) == plain(expected)


pieces = st.sampled_from(
    [
        *(run("word "), run("x y", BOLD), run("z", ITALIC), run(" a &amp; b "), IMAGE, NOTE),
        *("<w:hyperlink>" + run("to it", BOLD) + run(" and") + "</w:hyperlink>", run("  ", BOLD)),
        *(field("PAGE", run("3")), field("HYPERLINK x", run("a b")), mark("begin"), mark("end")),
        *(
            '<w:bookmarkStart w:id="1"/>',
            '<w:bookmarkEnd w:id="1"/>',
            '<w:bookmarkStart w:id="2"/>',
        ),
        *('<w:bookmarkEnd w:id="2"/>', "<w:r><w:br/></w:r>", "<w:r><w:tab/></w:r>", "<!-- c -->"),
        *(
            "<w:ins>" + run("new") + "</w:ins>",
            "<w:del><w:r><w:delText>x</w:delText></w:r></w:del>",
        ),
    ]
)


@given(content=st.lists(pieces, max_size=10).map("".join), draw=st.randoms(use_true_random=False))
def test_any_translation_has_the_objects_of_its_source(content: str, draw: random.Random) -> None:
    element = parse_xml(f"<w:p {nsdecls('w')}>{content}</w:p>")
    before = objects(element)
    paragraph = WordParagraph(element)
    translations = map(at_random(draw), map(BlockText, blocks_of(paragraph.parts)))
    paragraph.write(with_translations(paragraph.parts, translations))
    assert sorted(objects(element)) == sorted(before)
    assert {child.tag for run in element.iter(qn("w:t")) for child in run} == set()


KEPT = ("hyperlink", "pict", "footnoteReference", "br", "tab", "fldChar", "instrText", "ins", "del")


def objects(paragraph: Any) -> list[str]:
    """The elements of a paragraph other than runs and text, in order."""
    return [
        etree.QName(element).localname + str(element.items())
        for element in paragraph.iterdescendants("*")
        if etree.QName(element).localname.startswith((*KEPT, "bookmark"))
    ]


def test_parts_of_fields_stay_in_order() -> None:
    link = field("HYPERLINK x", run("to ") + field("PAGE", run("3")) + run(" it"))
    content = with_paragraph(run("see ") + link + run(" or ") + field("REF y", run("z")))
    contents = content, translated(content, "docx", reverse)
    before, after = (objects(opened(each).element.body[0]) for each in contents)
    kinds = [re.findall("begin|separate|end|instr", " ".join(each)) for each in (before, after)]
    simple = ["begin", "instr", "separate", "end"]
    assert kinds == [[*simple[:3], *simple, "end", *simple], [*simple, *simple[:3], *simple, "end"]]


@pytest.mark.parametrize("count", [50, 249, 3000])
def test_deep_nesting(count: int) -> None:
    contents = [
        "<w:ins>" * count + run("a b") + "</w:ins>" * count,
        (mark("begin") + "<w:r><w:instrText>HYPERLINK</w:instrText></w:r>" + mark("separate"))
        * count
        + run("a b")
        + mark("end") * count,
        "".join(f'<w:bookmarkStart w:id="{number}"/>' for number in range(count)) + run("a b"),
    ]
    for content in contents:
        try:
            source = with_paragraph(content)
        except XMLSyntaxError:  # python-docx refuses it, too
            continue
        with suppress(DataError):
            before = objects(opened(source).element.body[0])
            after = objects(opened(translated(source, "docx")).element.body[0])
            assert sorted(after) == sorted(before)


def test_paragraphs_are_numbered() -> None:
    document = document_of(docx_sample(), "docx")
    assert document.unit == "paragraph"
    assert [text.number for text in document.texts] == [1, 2, 2, 3, 4, 6, 8, 9, 10]


def test_strict_documents_are_read() -> None:
    namespace = b"http://purl.oclc.org/ooxml/wordprocessingml/main"
    buffer = BytesIO()
    with zipfile.ZipFile(BytesIO(docx_sample())) as source, zipfile.ZipFile(buffer, "w") as target:
        for name in source.namelist():
            old = b"http://schemas.openxmlformats.org/wordprocessingml/2006/main"
            target.writestr(name, source.read(name).replace(old, namespace))
    assert texts_of(buffer.getvalue(), "docx") == texts_of(docx_sample(), "docx")


def test_a_document_without_text_is_copied() -> None:
    content = with_paragraph("")
    assert translated(content, "docx", uppercase) == content


def test_other_packages_are_refused() -> None:
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("a", b"x")
    with pytest.raises(DataError, match="a file is not a Word document"):
        texts_of(buffer.getvalue(), "docx")
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("[Content_Types].xml", "<Types/>")
    with pytest.raises(DataError, match="a file is not a Word document"):
        texts_of(buffer.getvalue(), "docx")
