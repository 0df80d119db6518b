"""HTML documents: attributes, languages and encodings."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from documents.samples import HTML
from documents.translations import at_random, document_of, texts_of, translated, unchanged
from markup.markup_cases import tags
from regard.errors import DataError
from regard.markup.block import BlockText
from regard.markup.restore import restore


def test_text_and_attributes_are_translated_and_all_else_is_copied() -> None:
    expected = (
        HTML.replace('lang="en"', 'lang="de"')
        .replace("A title &amp; more", "A TITLE &amp; MORE")
        .replace("A short page.", "A SHORT PAGE.")
        .replace("A <b>big</b> dog and", "A <b>BIG</b> DOG AND")
        .replace("The cat", "THE CAT")
        .replace(">a cat</a>.<br>They sleep.", ">A CAT</a>.<br>THEY SLEEP.")
        .replace("See <code>", "SEE <code>")
        .replace('The "old" house', 'THE "OLD" HOUSE')
    )
    assert translated(HTML, "html", language="de").decode() == expected
    assert 'lang="en"' in translated(HTML, "html", language=None).decode()


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("<img src='a b' alt='one'>", ["one"]),
        ('<img alt="" title="42">', []),
        ("<img alt=one>", []),  # without quotes, a translation could end the value
        ('<input type="submit" value="Send">', ["Send"]),
        ("<input type=submit value='Send'>", ["Send"]),
        ('<input type="text" value="keep" placeholder="Name">', ["Name"]),
        ('<meta name="description" content="A page">', ["A page"]),
        ('<meta property="og:title" content="A page">', ["A page"]),
        ('<meta name="viewport" content="width=device-width">', []),
        ('<img data-x="a alt=\'no\'" aria-label="yes">', ["yes"]),
        ('<img translate="no" alt="keep">', []),
        ('<p translate="no"><img alt="keep"></p>', []),
    ],
)
def test_attributes(tag: str, expected: list[str]) -> None:
    assert texts_of(tag, "html") == expected
    output = translated(tag, "html").decode()
    for value in expected:
        tag = tag.replace(value, value.upper())
    assert output == tag


def test_quotes_in_attributes_are_escaped() -> None:
    def translate(text: str) -> str:
        assert isinstance(text, BlockText)
        return restore(text.block, 'it\'s "<b>"', [])

    output = translated("""<img alt='a'><img alt="b">""", "html", translate).decode()
    expected = """<img alt='it&#39;s "&lt;b&gt;"'><img alt="it's &quot;&lt;b&gt;&quot;">"""
    assert output == expected


def test_lines_are_numbered() -> None:
    source = "<p>one</p>\n<p>two\nthree</p><p>four <img\nalt='five'></p>"
    assert [text.number for text in document_of(source, "html").texts] == [1, 2, 3, 3]


def test_encodings() -> None:
    page = '<meta charset="windows-1252"><p>caf\xe9</p>'
    content = page.encode("cp1252")
    assert texts_of(content, "html") == ["café"]
    assert translated(content, "html", lambda text: "字é").endswith(b"<p>&#23383;\xe9</p>")
    old = b'<meta http-equiv="Content-Type" content="text/html; charset=ISO-8859-1"><p>\xe9</p>'
    assert texts_of(old, "html") == ["é"]
    with pytest.raises(DataError, match=r"not valid UTF-8 .* Correct the declaration"):
        texts_of(b'<meta charset="utf-8"><p>\xe9</p>', "html")
    with pytest.raises(DataError, match=r"declares the encoding 'x-user-defined'"):
        texts_of(b"<meta charset=x-user-defined>", "html")


@given(
    pieces=st.lists(
        st.sampled_from(
            [
                *(
                    "<p>",
                    "</p>",
                    "<b>",
                    "</b>",
                    "<a title='to do' href=x>",
                    "</a>",
                    "word ",
                    "é & ",
                ),
                *(
                    '<img alt="a b">',
                    "<br>",
                    "\n",
                    "<!-- c -->",
                    "&lt;",
                    "<3 ",
                    '"',
                    "\ue000",
                    "alt='",
                ),
            ]
        ),
        max_size=14,
    ),
    draw=st.randoms(use_true_random=False),
)
def test_any_page_keeps_its_tags(pieces: list[str], draw: random.Random) -> None:
    source = "".join(pieces)
    assert translated(source, "html", unchanged).decode() == source
    document_of(translated(source, "html", at_random(draw)), "html")
    if "title=" not in source and "alt=" not in source and "<3" not in source:
        assert tags(translated(source, "html", at_random(draw)).decode()) == tags(source)
