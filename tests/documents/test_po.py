"""Message catalogs, read and checked by polib."""

from __future__ import annotations

from typing import Any

import polib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from documents.samples import PO
from documents.translations import document_of, texts_of, translated, unchanged
from regard.errors import DataError


def catalog(content: bytes) -> Any:
    return polib.pofile("\n" + content.decode())  # a line break, so that it is no path


def test_messages_without_a_translation_are_translated() -> None:
    assert texts_of(PO, "po") == [
        "Open the file",
        "%d file\n",
        "%d files\n",
        'A text with several lines,\nwith "quotes" and more.',
    ]
    before, after = catalog(PO.encode()), catalog(translated(PO, "po"))
    assert after.metadata == before.metadata
    first, plural, several, existing, number, obsolete = after
    assert (first.msgstr, first.flags, first.comment) == (
        *("OPEN THE FILE", ["fuzzy"], "a comment of the program"),
    )
    assert plural.msgstr_plural == {0: "%D FILE\n", 1: "%D FILES\n"}
    assert (plural.flags, plural.msgctxt) == (["fuzzy", "c-format"], "menu")
    assert several.msgstr == several.msgid.upper()
    assert (existing.msgstr, existing.flags) == ("fertig", [])
    assert (number.msgstr, number.flags) == ("", [])
    assert (obsolete.msgid, obsolete.obsolete) == ("old", True)


def test_lines_that_are_not_translated_keep_every_byte() -> None:
    output = translated(PO, "po").decode()
    removed = [line for line in PO.splitlines() if line not in output.splitlines()]
    assert removed == ['msgstr ""', "#, c-format", 'msgstr[0] ""', 'msgstr[1] ""'][1:]
    assert translated("", "po") == b""


def test_existing_translations_are_replaced_on_request() -> None:
    output = catalog(translated(PO, "po", retranslate=True))
    [entry] = [entry for entry in output if entry.msgid == "done"]
    assert (entry.msgstr, entry.flags) == ("DONE", ["fuzzy"])
    again = translated(PO, "po", retranslate=True)
    assert translated(again, "po", retranslate=True).decode().count("fuzzy") == 4


def test_languages_with_one_plural_form_use_the_plural() -> None:
    source = 'msgid "one"\nmsgid_plural "many"\nmsgstr[0] ""\n'
    assert translated(source, "po").endswith(b'msgstr[0] "MANY"\n')
    three = source + 'msgstr[1] "x"\nmsgstr[2] ""\n'
    assert texts_of(three, "po") == ["one", "many"]


@given(
    texts=st.lists(
        st.text(alphabet='ab "\\\n\tü字\r\x0b\u2028%', min_size=1, max_size=30), max_size=4
    ),
    width=st.sampled_from([0, 20]),
)
def test_any_text_is_read_and_written_as_polib_does(texts: list[str], width: int) -> None:
    file = polib.POFile(wrapwidth=width)
    file.metadata = {"Content-Type": "text/plain; charset=UTF-8"}
    for number, text in enumerate(texts):
        file.append(polib.POEntry(msgid=f"x{text}", msgctxt=f"{number}"))
    content = str(file)
    assert texts_of(content, "po") == [f"x{text}" for text in texts]
    output = translated(content, "po", unchanged).decode()
    assert texts_of(output, "po") == []
    if not any(character in content for character in "\x0b\u2028"):  # where polib splits lines
        assert [entry.msgstr for entry in catalog(output.encode())] == [f"x{t}" for t in texts]


def test_long_messages_are_wrapped_if_those_of_the_source_are() -> None:
    wrapped = 'msgid ""\n"one two "\n"three"\nmsgstr ""\n'
    output = translated(wrapped, "po", lambda text: "word " * 40).decode()
    assert 3 < len(output.splitlines()) < 10
    assert max(map(len, output.splitlines())) < 80
    single = 'msgid "one two three"\nmsgstr ""\n'
    output = translated(single, "po", lambda text: "word " * 40).decode()
    assert len(output.splitlines()) == 3


def test_encodings_and_line_ends() -> None:
    source = PO.replace("UTF-8", "ISO-8859-15").replace("Open the", "Öffne die")
    content = source.encode("iso-8859-15")
    assert translated(content, "po").decode("iso-8859-15").count("ÖFFNE DIE FILE") == 1
    assert texts_of(PO.replace("UTF-8", "CHARSET"), "po") == texts_of(PO, "po")
    assert b"\n" not in translated(PO.replace("\n", "\r\n"), "po").replace(b"\r\n", b"")
    with pytest.raises(DataError, match="is encoded in iso8859-15, which does not have"):
        translated(content, "po", lambda text: "字")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nonsense", r"has an invalid line 1: 'nonsense'"),
        ('msgid "a"\nmsgstr "b', r"has an invalid line 2"),
        ('msgid "a"\nmsgid "b"\n', r"a second msgid of the same message in line 2"),
        ('"a"\n', r"a string without a keyword in line 1"),
        ('msgid "a"\n# c\n"b"\n', r"a string without a keyword in line 3"),
    ],
)
def test_errors(source: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        texts_of(source, "po")


def test_paths_are_not_opened() -> None:
    with pytest.raises(DataError, match="invalid line 1"):
        texts_of(__file__, "po")


def test_lines_are_numbered() -> None:
    numbers = [text.number for text in document_of(PO, "po").texts]
    assert [PO.splitlines()[number - 1].split()[0] for number in numbers] == [
        *("msgid", "msgid", "msgid_plural", "msgid"),
    ]
