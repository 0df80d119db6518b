"""Tags are put around the words that are aligned to theirs, and always form a valid tree."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from markup.markup_cases import (
    blocks_of,
    copy_words,
    reverse_words,
    source_of,
    tags,
    translate_at_random,
)
from regard.markup.html import parse_html
from regard.markup.restore import restore
from regard.markup.xml import check_well_formed, parse_xml

IGNORED = ("code",)
PIECES = [
    *("a", "b c", "é & x", "1.5, ", " ", "\n  ", "本の", "x-y"),
    *("&lt;", "&eacute;", "&nbsp;", "<br/>", '<img a="1"/>', "<!-- c -->", "<i></i>"),
    *("<code>x <b>y</b></code>", '<u translate="no">keep it</u>', "H<sub>2</sub>O"),
]
escaped = st.sampled_from([piece.replace("& ", "&amp; ") for piece in PIECES])
element = st.sampled_from(["b", "i", "a", "p", "div", "em"])
fragments = st.recursive(
    escaped,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5).map("".join),
        st.tuples(element, inner).map(lambda pair: f"<{pair[0]} k='1'>{pair[1]}</{pair[0]}>"),
    ),
    max_leaves=14,
)


@pytest.mark.parametrize("parse", [parse_html, parse_xml])
@settings(max_examples=400)
@given(source=fragments, draw=st.randoms(use_true_random=False))
def test_any_translation_has_the_tags_of_the_source_and_is_well_formed(
    parse: type[object], source: str, draw: random.Random
) -> None:
    parts = parse(source, IGNORED)  # type: ignore[call-arg]
    assert source_of(parts) == source  # type: ignore[arg-type]
    translation = translate_at_random(parts, draw)  # type: ignore[arg-type]
    assert tags(translation) == tags(source)
    check_well_formed(translation)


@given(source=fragments)
def test_an_unchanged_text_keeps_every_byte(source: str) -> None:
    for block in blocks_of(parse_html(source, IGNORED)):
        assert restore(block, block.text, []) == block.raw


CASES = [
    (
        "Hello <b>big</b> <i>red world</i>, how?",
        "HELLO <b>BIG</b> <i>RED WORLD</i>, HOW?",
        "HOW? <i>WORLD, RED</i> <b>BIG</b> HELLO",
    ),
    ("<b>all of it</b>", "<b>ALL OF IT</b>", "<b>IT OF ALL</b>"),
    ("one <b>two <i>three</i></b>", "ONE <b>TWO <i>THREE</i></b>", "<b><i>THREE</i> TWO</b> ONE"),
    ("foo<br>bar", "FOO<br>BAR", "<br>BAR FOO"),
    ("see <img src=x> it", "SEE <img src=x> IT", "<img src=x> IT SEE"),
    ("a&nbsp;b &amp; &eacute;", "A&nbsp;B &amp; É", "É &amp; B A"),
    ("at <code>ls -la</code> now", "AT <code>ls -la</code> NOW", "NOW <code>ls -la</code> AT"),
    ("of H<sub>2</sub>O here", "OF H<sub>2</sub>O HERE", "HERE H<sub>2</sub>O OF"),
    ("word<sup>1</sup> next", "WORD<sup>1</sup> NEXT", "NEXT WORD<sup>1</sup>"),
    ("a<!-- --> b <i id='x'></i>c", "A<!-- --> B <i id='x'></i>C", "<i id='x'></i>C B A<!-- -->"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "copied", "reversed_words"), CASES)
def test_tags_follow_their_words(source: str, copied: str, reversed_words: str) -> None:
    parts = parse_html(source, IGNORED)
    assert copy_words(parts) == copied
    assert reverse_words(parts) == reversed_words


def translate(source: str, translation: str, *links: tuple[int, int]) -> str:
    """A translation, given links between words that are separated by spaces."""
    [block] = blocks_of(parse_html(source, IGNORED))
    places, starts = ([0], [0])
    for text, ends in ((block.text, places), (translation, starts)):
        ends += [i + 1 for i, character in enumerate(text) if character == " "]
    return restore(block, translation, [(starts[j], places[i]) for i, j in links])


def test_a_scattered_element_surrounds_the_place_with_most_of_its_words() -> None:
    source, translation = "he <b>stood up quickly</b> then", "er stand dann hier schnell auf"
    assert (
        translate(source, translation, (0, 0), (1, 1), (4, 2), (0, 3), (3, 4), (2, 5))
        == "er stand dann hier <b>schnell auf</b>"
    )


def test_one_foreign_word_inside_an_element_is_included() -> None:
    assert translate("<b>x y</b> z", "X Z Y", (0, 0), (2, 1), (1, 2)) == "<b>X Z Y</b>"


def test_unaligned_words_do_not_extend_an_element() -> None:
    assert translate("<b>x</b> z", "the X Z", (0, 1), (1, 2)) == "the <b>X</b> Z"


def test_siblings_never_overlap() -> None:
    assert translate("<b>x</b> <i>y</i>", "XY", (0, 0)) == "<b>XY</b><i></i>"


def test_an_element_without_aligned_words_gets_a_word_beside_its_place() -> None:
    assert translate("x <a>y</a> z", "X Y Z", (0, 0), (2, 2)) == "X <a>Y</a> Z"
    assert translate("x <a>y</a>", "X Z", (0, 0), (1, 0)) == "X <a>Z</a>"


def test_a_tag_inside_a_word_surrounds_the_translated_word() -> None:
    assert translate("<b>W</b>orld x", "Welt X", (0, 0), (1, 1)) == "<b>Welt</b> X"


def test_words_that_are_not_translated_replace_those_aligned_to_them() -> None:
    source = 'the <q translate="no">Hund</q> barks'
    assert (
        translate(source, "le chien aboie", (0, 0), (1, 1), (2, 2))
        == 'le <q translate="no">Hund</q> aboie'
    )
    assert (
        translate(source, "aboie le Hund", (2, 0), (0, 1), (0, 2))
        == 'aboie le <q translate="no">Hund</q>'
    )


def test_new_characters_with_a_meaning_are_escaped() -> None:
    assert translate("<b>x</b> y", "X < & Y", (0, 0), (1, 3)) == "<b>X</b> &lt; &amp; Y"
    assert translate("&#38; x <b>y</b>", "X & Y & Y", (1, 0)).count("&#38;") == 2


def test_punctuation_is_aligned_to_its_copy() -> None:
    links = [(0, 0), (0, 5), (7, 7)]  # the comma attends to the word before it
    [block] = blocks_of(parse_html("<b>Hello</b>, world", IGNORED))
    assert restore(block, "Hallo, Welt", links) == "<b>Hallo</b>, Welt"
