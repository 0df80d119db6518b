"""Plain text, and the encodings of all text formats."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from documents.translations import document_of, texts_of, translated, unchanged, uppercase
from regard.documents.encodings import decode
from regard.errors import DataError


@given(text=st.text(alphabet="ab 1é字\n\r\t\x0b\u2028", max_size=40), has_mark=st.booleans())
def test_lines_are_translated_and_all_else_is_kept(text: str, has_mark: bool) -> None:
    content = codecs.BOM_UTF8 * has_mark + text.encode()
    assert translated(content, "txt", unchanged) == content
    assert translated(content, "txt") == codecs.BOM_UTF8 * has_mark + text.upper().encode()


def test_lines_without_letters_are_copied_and_numbers_are_those_of_lines() -> None:
    document = document_of("one\n\n12.5\r\n----\ntwo", "txt")
    assert [(text.text, text.number) for text in document.texts] == [("one", 1), ("two", 5)]
    assert document.unit == "line"
    assert not document.has_markup


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_files_with_a_byte_order_mark_keep_their_encoding(encoding: str) -> None:
    content = "\ufeffüber\r\n".encode(encoding)
    assert texts_of(content, "txt") == ["über"]
    assert translated(content, "txt") == "\ufeffÜBER\r\n".encode(encoding)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("über".encode("latin-1"), r"a file is not valid UTF-8 \(byte 1\). Convert the file"),
        (codecs.BOM_UTF8 + b"a\xff", r"a file is not valid UTF-8 \(byte 5\)"),
        (codecs.BOM_UTF16_LE + b"a", r"a file is not valid UTF-16-LE"),
        (b"a\0b", "contains a NUL character and is not text"),
    ],
)
def test_other_encodings_are_refused(content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        translated(content, "txt", uppercase)


def test_declared_encodings() -> None:
    assert decode(b"\x80\xe4", "x", "iso-8859-1").text == "€ä"  # as in browsers
    assert decode("字".encode("gbk"), "x", "GB2312").text == "字"
    for declared in ("utf-7", "unicode_escape", "zlib", "nonsense", "a" * 9999):
        with pytest.raises(DataError, match="declares the encoding"):
            decode(b"a", "x", declared)
    with pytest.raises(DataError, match=r"x is encoded in cp1252, which does not have .* '字'"):
        decode(b"a", "x", "latin1").encode("字", "x")
