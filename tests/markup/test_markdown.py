"""Markdown: blocks, inline markup and escapes."""

from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from markup.markup_cases import blocks_of, copy_words, reverse_words, source_of
from regard.markup.markdown import parse_markdown
from regard.markup.restore import restore

ROOT = Path(__file__).parents[2]


def texts(source: str) -> list[str]:
    return [block.text for block in blocks_of(parse_markdown(source, ("code",)))]


@settings(max_examples=300)
@given(st.text("a *_`[]()<>\n-#|~\\!&;1.:^=", max_size=60))
def test_no_input_is_an_error_and_every_byte_is_kept(source: str) -> None:
    assert source_of(parse_markdown(source, ("code",))) == source


@pytest.mark.parametrize("name", ["README.md", "README.zh.md", "docs/guides/translate.md"])
def test_pages_of_the_documentation_are_read_without_loss(name: str) -> None:
    page = (ROOT / name).read_text(encoding="utf-8")
    parts = parse_markdown(page, ("code",))
    assert source_of(parts) == page
    assert copy_words(parts, uppercase=False) == page


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("# One\n\nTwo\nthree\n\n    code\n", ["One", "Two three"]),
        ("---\ntitle: no\n---\ntext\n", ["text"]),
        ("```python\nno = 1\n```\n~~~\nno\n~~~\nyes", ["yes"]),
        (
            "- one\n  two\n- [ ] three\n  1. four\n\n      five",
            ["one two", "three", "four", "five"],
        ),
        ("> one\n> two\n>\n> - three", ["one two", "three"]),
        ("| a | b |\n|---|---|\n| *c* | 1 |\nafter", ["a", "b", "c", "after"]),
        ("Title\n===\ntext\n***\n- - -\nmore", ["Title", "text", "more"]),
        ("<div>\nhtml <i>x</i>\n</div>\n\ntext", ["html x", "text"]),
        ("<script>\nno\n\nno\n</script>\ntext", ["text"]),
        ("[ref]: http://x.y\n[^1]: a note\ntext [ref] [two][ref]", ["a note text ref two"]),
        ("[ref]: http://x.y\n\na [ref]", ["a ref"]),
        ("use `x = 1` and ![alt](a.png)", ["use x = 1 and"]),
        ("2 * 3 * 4, snake_case_name", ["2 * 3 * 4, snake_case_name"]),
        (r"not \*emphasis\* [not] a &lt;b", ["not *emphasis* [not] a <b"]),
    ],
)
def test_texts_to_translate(source: str, expected: list[str]) -> None:
    assert texts(source) == expected


@pytest.mark.parametrize(
    ("source", "copied", "reversed_words"),
    [
        ("a **b c** d", "A **B C** D", "D **C B** A"),
        ("_a_ ***b c***", "_A_ ***B C***", "***C B*** _A_"),
        ("**a *b* c**", "**A *B* C**", "**C *B* A**"),
        ("~~a~~ *b", "~~A~~ *B", "*B ~~A~~"),
        ('[a b](x(1) "t") c', '[A B](x(1) "t") C', 'C [B A](x(1) "t")'),
        ("[a *b*](x) ![i](j)", "[A *B*](x) ![i](j)", "[*B* A](x) ![i](j)"),
        ("a  \nb", "A  \nB", "  \nB A"),
        ("a\nb", "A\nB", "B A"),
        ("> a\n> b", "> A\n> B", "> B A"),
        ("`x` <b>y</b> z[^1]", "`x` <b>Y</b> Z[^1]", "Z <b>Y</b> `x`[^1]"),
        (r"a \* b", r"A \* B", r"B \* A"),
    ],
)
def test_tags_follow_their_words(source: str, copied: str, reversed_words: str) -> None:
    parts = parse_markdown(source, ("code",))
    assert copy_words(parts) == copied
    assert reverse_words(parts) == reversed_words


@pytest.mark.parametrize(
    ("translation", "expected"),
    [
        ("1. Mai", r"1\. Mai"),
        ("# Mai", r"\# Mai"),
        ("- Mai", r"\- Mai"),
        ("> Mai", r"\> Mai"),
        ("1.5 Mai", "1.5 Mai"),
        ("a *b* [c] <d>", r"a \*b\* \[c\] &lt;d>"),
    ],
)
def test_translations_are_no_markup(translation: str, expected: str) -> None:
    [block] = blocks_of(parse_markdown("first of May", ()))
    assert restore(block, translation, []) == expected


def test_emphasis_without_words_is_left_out() -> None:
    [block] = blocks_of(parse_markdown("**a** *b* [c](x)", ()))
    assert restore(block, "", []) == "[](x)"
    assert restore(block, "A", [(0, 0)]) == "**A**[](x)"


@pytest.mark.parametrize(("piece", "count"), [("*a_", 15_000), ("<a ", 15_000), ("[^", 40_000)])
def test_unpaired_marks_take_linear_time(piece: str, count: int) -> None:
    source, start = piece * count, process_time()
    assert source_of(parse_markdown(source, ())) == source
    assert process_time() - start < 4  # quadratic time: 9 to 18 seconds
