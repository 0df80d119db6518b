"""Zip packages and XML trees that could do harm."""

from __future__ import annotations

import struct
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from documents.samples import docx_sample, odt_sample
from documents.translations import texts_of, translated
from regard.documents import package
from regard.documents.package import Package
from regard.documents.xml_tree import parse_tree, serialize, xml_text
from regard.errors import DataError

DTDS = {
    "entities": '<!DOCTYPE a [<!ENTITY x "yyyy">]><a>&x;</a>',
    "billion laughs": '<!DOCTYPE a [<!ENTITY a0 "ha">'
    + "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 20))
    + ']><a b="&a19;">&a19;</a>',
    "external": '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/hostname">]><a>&x;</a>',
    "external DTD": '<!DOCTYPE a SYSTEM "file:///etc/hostname"><a/>',
    "parameter": '<!DOCTYPE a [<!ENTITY % x SYSTEM "file:///etc/hostname"> %x;]><a/>',
}


def zipped(*members: tuple[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        for name, content in members:
            file.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.parametrize("name", DTDS)
def test_document_types_are_refused(name: str) -> None:
    with pytest.raises(DataError, match=r"x .*(document type declaration|well-formed)"):
        parse_tree(DTDS[name].encode(), "x")


def test_trees_are_written_as_they_were_read() -> None:
    for content in (
        b"<?xml version='1.0' encoding='UTF-8' standalone='yes'?>\n<a><!-- c --><b/>x</a>",
        b"<?xml version='1.0' encoding='ISO-8859-1'?>\n<a>\xe9</a>",
    ):
        assert serialize(parse_tree(content, "x")) == content
    with pytest.raises(DataError, match="is not well-formed XML"):
        parse_tree(b"<a>" * 300 + b"</a>" * 300, "x")  # too deep
    assert xml_text("a\x00\x0b\ud800\ufffe字\n") == "a字\n"


def test_parts_are_replaced_and_all_others_copied() -> None:
    content = docx_sample()
    file = Package(content, "x")
    assert file.replaced({}) == content
    before = zipfile.ZipFile(BytesIO(content))
    after = zipfile.ZipFile(BytesIO(file.replaced({"word/document.xml": b"new"})))
    assert after.namelist() == before.namelist()
    for old, new in zip(before.infolist(), after.infolist(), strict=True):
        is_new = old.filename == "word/document.xml"
        assert after.read(new) == (b"new" if is_new else before.read(old))
        assert (new.date_time, new.compress_type) == (old.date_time, old.compress_type)


def test_bombs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    content = zipped(("a.xml", bytes(3_000_000)))
    assert Package(content, "x").read_part("a.xml")
    monkeypatch.setattr(package, "_RATIO_FROM", 1_000_000)
    with pytest.raises(
        DataError, match=r"x contains 3,000,000 bytes, but .* may contain 1,000,000"
    ):
        Package(content, "x")
    monkeypatch.setattr(package, "_MAX_MEMBERS", 1)
    with pytest.raises(DataError, match=r"has 2 parts, but must have at most 1"):
        Package(zipped(("a", b""), ("b", b"")), "x")
    monkeypatch.setattr(package, "_MAX_XML", 10)
    with pytest.raises(DataError, match=r"has a part a of 11 bytes"):
        Package(zipped(("a", b"x" * 11)), "x").read_part("a")


def test_sizes_that_are_not_true_do_not_fill_memory() -> None:
    content = zipped(("a.xml", bytes(5_000_000)))
    size = struct.pack("<I", 5_000_000)
    assert content.count(size) == 2
    with pytest.raises(DataError, match=r"x is damaged: a\.xml cannot be decompressed"):
        Package(content.replace(size, struct.pack("<I", 10)), "x").read_part("a.xml")


def test_protected_and_damaged_files_are_refused() -> None:
    with pytest.raises(DataError, match="x is protected by a password, or in the format of older"):
        Package(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(1000), "x")
    content = bytearray(zipped(("a", b"abc")))
    place = content.index(b"PK\x01\x02")
    content[place + 8] |= 1
    with pytest.raises(DataError, match="x is encrypted"):
        Package(bytes(content), "x")
    with pytest.raises(DataError, match="x is not a zip file, or is damaged"):
        Package(b"PK\x03\x04", "x")
    with pytest.raises(DataError, match="x is damaged: it has no part a"):
        Package(zipped(), "x").read_part("a")
    with pytest.warns(UserWarning, match="Duplicate"):
        content = bytearray(zipped(("a", b""), ("a", b"")))
    with pytest.raises(DataError, match="x has two parts of the same name"):
        Package(bytes(content), "x")


def test_names_of_parts_are_no_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    buffer = BytesIO(docx_sample())
    with zipfile.ZipFile(buffer, "a") as file:
        file.writestr("../outside.xml", b"x")
    output = translated(buffer.getvalue(), "docx")
    assert "../outside.xml" in zipfile.ZipFile(BytesIO(output)).namelist()
    assert [*tmp_path.parent.glob("outside*"), *tmp_path.iterdir()] == []


def test_entities_in_parts_are_refused() -> None:
    for content, part, name in (
        (docx_sample(), "word/document.xml", "docx"),
        (odt_sample(), "content.xml", "odt"),
    ):
        bomb = DTDS["billion laughs"].encode()
        with pytest.raises(DataError, match=rf"a file \({part}\)"):
            texts_of(Package(content, "x").replaced({part: bomb}), name)  # type: ignore[arg-type]
