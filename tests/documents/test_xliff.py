"""XLIFF 1.2 and 2.0."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from documents.samples import XLIFF_1, XLIFF_2
from documents.translations import at_random, document_of, reverse, texts_of, translated
from regard.errors import DataError


def targets(content: bytes) -> list[str]:
    """The content of each target as XML without namespaces."""
    root = etree.fromstring(content)
    found_targets = [
        etree.tostring(element, with_tail=False, encoding="unicode")
        for element in root.iter("{*}target")
    ]
    return [re.sub(r' xmlns="[^"]*"', "", target) for target in found_targets]


STATE = '<target state="needs-review-translation" state-qualifier="mt-suggestion">'


def test_version_1() -> None:
    output = translated(XLIFF_1, "xliff", language="de")
    assert targets(output) == [
        f'{STATE}A <g id="1">BIG</g> DOG<x id="2"/> &amp; <bpt id="3">[</bpt>A CAT'
        '<ept id="3">]</ept></target>',
        "<target>fertig</target>",
        f'{STATE}<mrk mtype="seg" mid="1">ONE DOG.</mrk> <mrk mtype="seg" mid="2">TWO DOGS.</mrk>'
        "</target>",
    ]
    root = etree.fromstring(output)
    assert root.find("{*}file").get("target-language") == "de"
    for unit in root.iter("{*}trans-unit"):
        names = [etree.QName(child).localname for child in unit]
        assert names == sorted(names, key=["source", "seg-source", "target", "note"].index)


def test_version_2() -> None:
    output = translated(XLIFF_2, "xliff", reverse, "de")
    assert targets(output) == [
        '<target><mrk id="m" translate="no">Rex</mrk>. AND DOG <pc id="1">BIG</pc> A</target>',
        "<target>fertig</target>",
    ]
    root = etree.fromstring(output)
    assert root.get("trgLang") == "de"
    assert [segment.get("state") for segment in root.iter("{*}segment")] == ["translated", None]


@pytest.mark.parametrize("source", [XLIFF_1, XLIFF_2])
def test_what_is_not_translated_does_not_change(source: str) -> None:
    def without_targets(content: bytes) -> bytes:
        root = etree.fromstring(content)
        for target in root.findall(".//{*}target"):
            target.getparent().remove(target)
        for element in root.iter():
            element.text = (element.text or "").strip() and element.text
            element.tail = (element.tail or "").strip() and element.tail
            for name in ("state", "approved"):
                element.attrib.pop(name, None)
        return bytes(etree.tostring(root, method="c14n"))

    output = translated(source, "xliff", reverse)
    assert without_targets(output) == without_targets(source.encode())


def test_existing_translations_are_replaced_on_request() -> None:
    output = translated(XLIFF_1, "xliff", retranslate=True)
    assert f"{STATE}DONE</target>" in targets(output)
    assert b'approved="yes"' not in output
    assert b"<source>keep</source></trans-unit>" in output


def test_texts_without_letters_are_copied() -> None:
    source = '<xliff version="1.2"><trans-unit><source>12 <x/></source></trans-unit></xliff>'
    assert texts_of(source, "xliff") == []
    assert targets(translated(source, "xliff")) == [f"{STATE}12 <x/></target>"]


def test_declared_encodings_are_kept() -> None:
    source = XLIFF_1.replace("UTF-8", "ISO-8859-1").replace("dog", "d\xf6g").encode("latin-1")
    output = translated(source, "xliff", lambda text: "d\xf6g 字")
    assert output.startswith(b"<?xml version='1.0' encoding='ISO-8859-1'?>")
    assert "d\xf6g &#23383;".encode("latin-1") in output


@given(
    children=st.lists(
        st.sampled_from(
            [
                *("word ", "a &amp; b ", '<g id="1">x y</g>', '<g id="2">x<x id="3"/></g>'),
                *('<x id="4"/>', '<bpt id="5"/>', '<ept id="5"/>', '<bpt rid="6"/>', " "),
                *('<ept rid="6"/>', '<mrk mtype="protected">keep it</mrk>', "<!-- c -->"),
            ]
        ),
        max_size=9,
    ),
    draw=st.randoms(use_true_random=False),
)
def test_any_translation_has_the_elements_of_its_source(
    children: list[str], draw: random.Random
) -> None:
    content = f'<xliff version="1.2"><trans-unit><source>{"".join(children)}</source>'
    output = translated(content + "</trans-unit></xliff>", "xliff", at_random(draw))
    root = etree.fromstring(output)
    expected = sorted(str(e.items()) for e in root.find(".//source").iterdescendants("*"))
    target = root.find(".//target")
    elements = [] if target is None else target.iterdescendants("*")
    assert sorted(str(element.items()) for element in elements) == expected


def test_errors() -> None:
    for source in ("<xliff version='3.0'/>", "<html/>", "<xliff/>"):
        with pytest.raises(DataError, match=r"is not an XLIFF document of version 1\.2 or 2"):
            texts_of(source, "xliff")
    with pytest.raises(DataError, match=r"a file is not well-formed XML: .* line 2, column"):
        texts_of("<xliff>\n<a></xliff>", "xliff")


def test_lines_are_numbered() -> None:
    numbers = [text.number for text in document_of(XLIFF_1, "xliff").texts]
    assert numbers == [5, 12, 12]
