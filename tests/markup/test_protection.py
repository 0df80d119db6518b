"""Protected spans come out byte for byte, whatever the translation and its alignment are."""

from __future__ import annotations

import html
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from markup.markup_cases import TAG, tags
from regard.markup.block import Block
from regard.markup.html import parse_html
from regard.markup.markdown import parse_markdown
from regard.markup.plain import parse_plain
from regard.markup.protection import Protection
from regard.markup.restore import Restored, restore, restore_block
from regard.markup.xml import check_well_formed, parse_xml
from regard.text.protected import SPAN_KINDS, SpanFinder

FINDER = SpanFinder.of(SPAN_KINDS, [r"TICKET-\d+", "😀+"], ("⟦", "⟧"))
STAND_INS = "XQH"
SPANS = [
    *("https://x.de/a?b=(1).html", "www.example.com", "bob@x.com", "{name}", "%s", "%1$d"),
    *("{{ x y }}", "1,234.5", "5", "5", "50%", "12:30", "TICKET-7", "😀", "😀😀"),
    *(" ⟦New  York⟧ ", " ⟦北京⟧ ", " ⟦b. B⟧ "),
]
PLACES = [" ", "  ", ", ", " (", ") ", ". ", " dog ", " X ", " x5z ", "。", "有", "、"]
NEW_WORDS = [
    "neu",
    "%",
    "s",
    "5",
    "{name}",
    "5.",
    "x.",
    "(",
    "是",
    "(X)",
    "X.",
    "Xs",
    "X-Y",
    "有Q。",
]
pieces = st.tuples(st.sampled_from(PLACES), st.sampled_from(SPANS)).map("".join)
texts = st.lists(pieces, max_size=6).map("".join)


def is_short(text: str) -> bool:
    return len(text) < 10


PROTECTION = Protection(FINDER, is_short, (*STAND_INS,))


def parts_of(text: str) -> list[str | Block]:
    return protected(parse_plain(text))


def protected(parts: Sequence[str | Block]) -> list[str | Block]:
    """The parts, with blocks in which spans are protected."""
    blocks = ([part] if isinstance(part, str) else PROTECTION.protect(part) for part in parts)
    return [part for parts in blocks for part in parts]


def check_spans(source: str, translation: str) -> None:
    """Each span of the source occurs in the translation as often as in the source."""
    spans = Counter(source[span.inner_start : span.inner_end] for span in FINDER.find(source))
    assert not {"⟦", "⟧"} & {*translation}
    for span in sorted(spans, key=len, reverse=True):
        pattern = re.escape(span)
        # Parts of other words and numbers are not the number.
        if span[0].isdigit():
            pattern = rf"(?<![^\W\u3000-\u9fff])(?<!\d[.,:'’/-]){pattern}"
        if span[-1].isdigit():
            pattern += r"(?!_|[.,:'’/-]?\d)"
        translation, count = re.subn(pattern, "\0", translation)
        assert count == spans[span]


def translate_at_random(block: Block, draw: random.Random) -> Restored:
    """A translation with some words of the block, copies and other words, and any alignment."""
    words = [*block.text.split(" "), *STAND_INS, *NEW_WORDS]
    draw.shuffle(words)
    chosen = words[: draw.randint(0, len(words))]
    translation = " ".join(chosen)
    links = [
        (draw.randrange(len(translation)), draw.randrange(len(block.text)))
        for _ in range(draw.randint(0, 12) if translation and block.text else 0)
    ]
    return restore_block(block, translation, links, finder=PROTECTION.unmarked)


def translate(parts: Sequence[str | Block], draw: random.Random) -> str:
    return "".join(
        part if isinstance(part, str) else translate_at_random(part, draw).text for part in parts
    )


@settings(max_examples=300)
@given(text=texts, draw=st.randoms(use_true_random=False))
@example("12:30 x5z https://x.de/a?b=(1).html. dog", random.Random(1))
def test_every_span_occurs_as_often_as_in_the_source(text: str, draw: random.Random) -> None:
    check_spans(text, translate(protected(parse_plain(text)), draw))


def to_xml(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


fragments = st.recursive(
    pieces.map(to_xml),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(" ".join),
        st.tuples(st.sampled_from("bip"), inner).map(
            lambda pair: f"<{pair[0]} k='1'>{pair[1]}</{pair[0]}>"
        ),
        inner.map(lambda text: text + "<br/>&amp; <q translate='no'>keep it</q>"),
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("parse", [parse_html, parse_xml])
@settings(max_examples=1000)
@given(source=fragments, draw=st.randoms(use_true_random=False))
def test_spans_and_tags_are_kept_in_markup(
    parse: Callable[[str, Sequence[str]], list[str | Block]], source: str, draw: random.Random
) -> None:
    translation = ""
    for part in parse(source, ()):
        translated = translate(protected([part]), draw)
        raw = part if isinstance(part, str) else part.raw
        check_spans(*map(text_of, (raw, translated)))
        translation += translated
    check_well_formed(translation)
    assert tags(translation) == tags(source)


def text_of(markup: str) -> str:
    return html.unescape(TAG.sub("|", re.sub("<q.*?</q>", "|", markup)))


@settings(max_examples=1000)
@given(
    lists=st.lists(st.lists(pieces, max_size=3).map("".join), max_size=3),
    draw=st.randoms(use_true_random=False),
)
def test_spans_are_kept_in_markdown(lists: list[str], draw: random.Random) -> None:
    source = "\n\n".join(f"- x{text} **and{text}**" for text in lists)
    for block in parse_markdown(source, ()):
        translation = translate(protected([block]), draw)
        raw = block if isinstance(block, str) else block.raw
        plain = [re.sub(r"\\(.)|\*", r"\1", text) for text in (raw, translation)]
        check_spans(*plain)


def protect_line(text: str) -> Block:
    """The block of a line in which spans are protected."""
    return only_block(protected(parse_plain(text)))


def only_block(parts: Sequence[str | Block]) -> Block:
    [block] = [part for part in parts if isinstance(part, Block)]
    return block


def restored(text: str, translation: str, *links: tuple[int, int]) -> Restored:
    """A translation of a line, given links between words that are separated by spaces."""
    block = protect_line(text)
    places, starts = ([0], [0])
    for words, ends in ((block.text, places), (translation, starts)):
        ends += [i + 1 for i, character in enumerate(words) if character == " "]
    pairs = [(starts[j], places[i]) for j, i in links]
    return restore_block(block, translation, pairs, finder=PROTECTION.unmarked)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("see https://x.de, {a} at 12:30", "see X, Q at 12:30"),
        ("X and {a} or {b} or {c}", "X and Q or H or Q"),  # X is a word of the text
        ("⟦New  York⟧ has ⟦a long name⟧", "New York has X"),
        ("%s%s of a{b}c", "X of aQc"),
        ("  a {b} \u2003c ", "a X c"),
        ("(5) 1,234,567.89 a", "(5) X a"),
    ],
)
def test_the_model_reads_short_spans_and_stand_ins(text: str, read: str) -> None:
    assert protect_line(text).text == read


@pytest.mark.parametrize("text", ["{a}: %s", " 5 ", "", " \u2003", "12:30, bob@x.de\r\n{a}"])
def test_lines_of_spans_alone_are_copied(text: str) -> None:
    assert "".join(map(str, protected(parse_plain(text)))) == text
    assert "".join(map(str, protected(parse_plain("⟦a  b⟧ (⟦c⟧)")))) == "a  b (c)"


def test_lines_without_spans_are_not_changed() -> None:
    parts = parse_plain("  a  b \n\nc\u2028 d")
    assert [part if isinstance(part, str) else part.raw for part in parts] == [
        "  a  b ", "\n", "\n", "c", "\u2028", " d",
    ]  # fmt: skip
    assert protected(parts) == parts
    [block, *_] = parts
    assert isinstance(block, Block)
    assert restore(block, "  B   a ", [(2, 2)]) == "  B   a "


CASES = [
    # a copy is where the span is, whatever it is aligned to
    ("see {a} now", "jetzt X sehen", [(1, 2)], "jetzt {a} sehen"),
    ("see {a} now", "jetzt {a} sehen", [], "jetzt {a} sehen"),
    ("at 12:30 now", "jetzt um 12:30.", [], "jetzt um 12:30."),
    # words that are aligned to a span are replaced
    ("at 12:30 now", "jetzt um 12.30 Uhr", [(0, 2), (1, 0), (2, 1)], "jetzt um 12:30 Uhr"),
    ("see {a} now", "jetzt Xs Y sehen", [(0, 2), (1, 1), (2, 1), (3, 0)], "jetzt {a} sehen"),
    # of two copies, one is that of the aligned span
    ("{a} sees %s", "Q von X gesehen", [(0, 2), (2, 0)], "%s von {a} gesehen"),
    ("3 a and 3 b", "3 B und 3 A", [(0, 3), (3, 0)], "3 B und 3 A"),
    # without a copy and without alignment, a span is beside its neighbour
    ("see {a} now", "jetzt sehen", [(0, 2), (1, 0)], "{a} jetzt sehen"),
    ("the {a}.", "das Ding.", [(0, 0), (1, 0)], "das Ding {a}."),
    ("the {a} and {b}.", "das.", [], "das {a} {b}."),
    ("a {b}", "", [], "{b}"),
    # spans remain spans of their own
    ("see 5 now {a}", "我看见5个X。", [], "我看见5个{a}。"),
    ("a 3 b 4", "A5B", [(0, 1)], "3 4"),
    ("Tom ⟦und⟧ 5", "undso 5", [(1, 2)], "undso und 5"),
    ("un⟦glaub⟧lich {a}", "unglaublich X", [], "unglaublich {a}"),
    # whitespace is that of the source
    ("a ⟦New  York⟧ b", "B New York A", [], "B New  York A"),
    ("  a {b} ", "A X", [], "A {b}"),
]


@pytest.mark.parametrize(("text", "translation", "links", "expected"), CASES)
def test_spans_are_placed_by_copies_and_alignment(
    text: str, translation: str, links: list[tuple[int, int]], expected: str
) -> None:
    assert restored(text, translation, *links).text == expected


def test_uncertain_places_and_removed_copies_are_reported() -> None:
    assert restored("see {a} now", "X jetzt", (1, 2)).uncertain == ()
    assert restored("see {a} now", "jetzt sehen", (0, 1)).uncertain == ()
    assert restored("see {a} now", "jetzt sehen").uncertain == ("{a}",)
    assert restored("a 5 b 5", "5 A B", (0, 1)).uncertain == ("5",)
    repeated = restored("see {a} now", "X X {a} sehen", (1, 1))
    assert repeated == Restored("{a} sehen", (), ("{a}", "{a}"))
    assert restored("2 a, two b", "2 A, 2 B", (0, 0)) == Restored("2 A, B", (), ("2",))
    block = protect_line("see {a} now")
    positional = restore_block(block, "jetzt sehen", [(0, 4)], is_aligned=False)
    assert positional == Restored("{a} sehen", ("{a}",), ())


def test_words_of_the_source_that_equal_a_span_may_be_in_the_translation() -> None:
    assert restored("⟦Tom⟧ and Tom", "Tom und Tom", (0, 0), (2, 2)).text == "Tom und Tom"
    assert restored("⟦Tom⟧ and Tom", "Tom Tom Tom", (0, 2)).text == "Tom Tom"


def test_a_span_inside_an_element_stays_inside() -> None:
    block = only_block(protected(parse_html("<b>see {a}</b> now &amp; <i>%s</i>", ())))
    assert block.text == "see X now & Q"
    translated = restore(block, "Q & jetzt X sehen", [(0, 12), (4, 6), (10, 4), (12, 0)])
    assert translated == "<i>%s</i> &amp; jetzt <b>{a} sehen</b>"


def test_spans_keep_the_spelling_of_the_source() -> None:
    source = "see http://x.de?a=1&amp;b=2&c, &#91;&#91; ⟦&eacute; < y⟧"
    block = only_block(protected(parse_html(source, ())))
    assert block.text == "see X, [[ é < y"
    translated = restore(block, "é < y [[ & X", [])
    assert translated == "&eacute; < y &#91;&#91; &amp; http://x.de?a=1&amp;b=2&c"


def test_children_of_elements_stay_inside_when_siblings_take_their_words() -> None:
    block = only_block(parse_html("a <b><i>b c d e</i> <u>f</u></b>", ()))
    links = [(0, 0), (2, 2), (4, 4), (6, 10), (8, 6), (10, 8)]
    assert restore(block, "A B C F D E", links) == "A <b><i>B C F D E</i><u></u></b>"
