"""HTML: blocks, elements that are not translated, and tolerance of errors."""

from __future__ import annotations

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from markup.markup_cases import blocks_of, copy_words, source_of
from regard.markup.html import parse_html

IGNORED = ("code", "pre")


def texts(source: str) -> list[str]:
    return [block.text for block in blocks_of(parse_html(source, IGNORED))]


@given(st.text("ab <>/='\"!-[]&;?\n", max_size=60))
def test_no_input_is_an_error_and_every_byte_is_kept(source: str) -> None:
    assert source_of(parse_html(source, IGNORED)) == source


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<p>One <b>two</b></p><p>Three", ["One two", "Three"]),
        ("<ul><li>one<li>two <i>x</ul>", ["one", "two", "x"]),
        ("<td>a</td><td>b</td><td>12 %</td>", ["a", "b"]),
        ("<title>A &amp; B</title><body>text", ["A & B", "text"]),
        ("<script>if (a<b) {}</script>text<style>p{}</style>", ["text"]),
        ("<p>a</p><pre>not <b>this</b></pre><code>or this</code>", ["a"]),
        ('<div translate="no"><p>not</p><div>this</div></div>that', ["that"]),
        ('<p class="x notranslate y">not</p><p class="notranslated">that</p>', ["that"]),
        ("<li translate=no>not<li>that", ["that"]),
        ("text <span title='translate=no'>x</span>", ["text x"]),
        ("see <code>x=1</code> there", ["see x=1 there"]),
        ("<a href=x><div>block</div></a> after", ["block", "after"]),
        ("<b>mis<i>nested</b>tags</i>", ["mis", "nested", "tags"]),
        ("a < b & c &copy d &unknown; e", ["a < b & c © d &unknown; e"]),
        ("<!-- <p>no</p> --><p>yes<!-- no --> too</p><!doctype html>", ["yes too"]),
        ("line\n  break\ttab", ["line break tab"]),
        ("<p title='a>b'>x</p>", ["x"]),
        ("x<!-- > no", ["x"]),
        ("x <b no", ["x <b no"]),
    ],
)
def test_texts_to_translate(source: str, expected: list[str]) -> None:
    assert texts(source) == expected


def test_only_translated_text_changes() -> None:
    page = """<!DOCTYPE html>
<html lang=en><head><meta charset="utf-8"><title>My page</title>
<script>let x = "<p>text</p>";</script></head>
<body class='a  b'>
  <h1 ID=top>Hello&nbsp;<em>world</em></h1><!-- comment -->
  <P>One<br>two &copy; <a href="?a=1&b=2">three</A>.
  <img alt="x > y"> four</P >
</body></html>
"""
    expected = (
        page.replace("My page", "MY PAGE").replace("Hello", "HELLO").replace("world", "WORLD")
    )
    for word in ("One", "two", "three", "four"):
        expected = expected.replace(f"{word}", word.upper())
    assert copy_words(parse_html(page, IGNORED)) == expected


def test_deep_and_long_input_takes_linear_time() -> None:
    for source in ("<b>" * 20_000, "<p title=" * 20_000, "<sup>" * 20_000, "<!--" * 20_000):
        assert source_of(parse_html(source, IGNORED)) == source
    nested = "<i>" * 3000 + "x" + "</i>" * 3000
    assert copy_words(parse_html(nested, IGNORED)) == nested.replace("x", "X")
    start = process_time()
    for source in ("<b><i>" * 40_000 + "x", "<sup>" * 10_000 + "x"):
        assert source_of(parse_html(source, IGNORED)) == source
    assert process_time() - start < 6  # quadratic time: 15 seconds
