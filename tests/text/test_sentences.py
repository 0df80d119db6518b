"""Where sentences end, and pieces that fit: nothing is lost, and nothing takes for ever."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.text.base import Tokenizer
from regard.text.config import TokenizerConfig
from regard.text.sentences import pieces_within, sentences
from regard.text.tokenizer import train_tokenizers

# Text that is full of what sentence ends are made of.
stops = st.text("aB .!?…。！\"')”(«¿m\t\u3000", max_size=60)
texts = st.text(max_size=60) | stops


def shorter_than(limit: int) -> Callable[[str], bool]:
    return lambda text: len(text) <= limit


# Sentences.


@settings(deadline=None)
@given(texts)
def test_sentences_joined_are_the_text(text: str) -> None:
    assert "".join(sentences(text)) == text


@settings(deadline=None)
@given(texts)
def test_no_sentence_is_empty_but_that_of_an_empty_text(text: str) -> None:
    assert sentences(text) == [""] if not text else all(sentences(text))


@pytest.mark.parametrize(
    "pieces",
    [
        ["One. ", "Two! ", "Three? ", "Four"],
        ["Wait... ", "What?"],
        ["Really?! ", "Yes."],
        ["He said “no.” ", "Then he left."],
        ["(It rained.) ", "We stayed."],
        ["It is five. ", "“Come in,” she said."],
        ["Es regnet. ", "Über uns ist Himmel."],
        ["C'est fini. ", "Étienne part."],
        ["¿Cómo? ", "¡Así!"],
        ["Two spaces.  ", "Here."],
        ["In line 4. ", "7 more follow."],
        ["他来了。", "他走了！", "为什么？", "不知道"],
        ["他说：“好。”", "她走了。"],
        ["我走了。  ", "再见。"],
    ],
)
def test_a_sentence_ends_after_its_stop_and_its_spaces(pieces: list[str]) -> None:
    assert sentences("".join(pieces)) == pieces


@pytest.mark.parametrize(
    "text",
    [
        "Mr. Smith met Dr. Jones.",
        "(Mr. Smith)",
        "J. R. Smith",
        "fruit, e.g. Apples",
        "Obst, z.B. Äpfel",
        "version 3.5 is out",
        "he said no. but she came",
        "Il a dit non. puis il est parti",
        "il dit: non. état, été",
        "no stop at all",
        "...",
        " ",
        "",
    ],
)
def test_no_sentence_ends_here(text: str) -> None:
    assert sentences(text) == [text]


@pytest.mark.parametrize("text", ["." * 300_000, "A. " * 200_000, "?! " * 100_000 + "end"])
def test_a_line_of_a_megabyte_does_not_take_for_ever(text: str) -> None:
    # With a search from every dot, or a look at the whole line from every abbreviation: hours.
    assert sentences(text) == [text]


# Pieces.


@settings(deadline=None)
@given(texts, st.integers(1, 30))
def test_pieces_keep_all_characters_and_fit(text: str, limit: int) -> None:
    pieces, _ = pieces_within(text, shorter_than(limit))
    assert "".join(pieces) == text
    assert all(len(piece) <= limit for piece in pieces)


@settings(deadline=None)
@given(texts, st.integers(1, 30))
def test_a_cut_is_reported_when_a_sentence_itself_does_not_fit(text: str, limit: int) -> None:
    _, was_cut = pieces_within(text, shorter_than(limit))
    assert was_cut == any(len(sentence) > limit for sentence in sentences(text))


@settings(deadline=None)
@given(texts)
def test_a_text_that_fits_is_one_piece(text: str) -> None:
    assert pieces_within(text, shorter_than(len(text))) == ([text], False)


@settings(deadline=None)
@given(stops, st.integers(1, 30))
def test_neighbouring_pieces_would_not_fit_into_one(text: str, limit: int) -> None:
    pieces, was_cut = pieces_within(text, shorter_than(limit))
    if not was_cut:
        for piece, following in pairwise(pieces):
            assert len(piece) + len(sentences(following)[0]) > limit


@settings(deadline=None)
@given(st.lists(st.text("abc", min_size=1, max_size=8), min_size=1), st.integers(9, 30))
def test_words_that_fit_are_not_torn(words: list[str], limit: int) -> None:
    pieces, _ = pieces_within(" ".join(words), shorter_than(limit))
    assert [word for piece in pieces for word in piece.split()] == words


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("One. Two. Three.", ["One. Two. ", "Three."]),
        ("one two three", ["one two ", "three"]),
        ("one two three four", ["one two ", "three four"]),
        ("onetwothreefour", ["onetwothre", "efour"]),
        ("一二三四五，六七八九十一", ["一二三四五，", "六七八九十一"]),
        ("Short. And one that is long.", ["Short. ", "And one ", "that is ", "long."]),
    ],
)
def test_cuts_are_at_sentence_ends_or_else_at_spaces_or_else_anywhere(
    text: str, pieces: list[str]
) -> None:
    assert pieces_within(text, shorter_than(10))[0] == pieces


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    lines = ["the dog sleeps", "a dog runs and sleeps", "the house is small", "我爱你，你爱我"] * 20
    return train_tokenizers(lambda: lines, list, TokenizerConfig(vocab_size=330)).source


@settings(deadline=None)
@given(
    words=st.lists(st.sampled_from(["the", "dog ", "sleeps ", "ru", "我爱", "你，", "é", ". A"])),
    limit=st.integers(6, 20),
)
def test_pieces_fit_when_subwords_are_counted(
    tokenizer: Tokenizer, words: list[str], limit: int
) -> None:
    text = "".join(words)
    pieces, _ = pieces_within(text, lambda piece: len(tokenizer.encode(piece)) <= limit)
    assert "".join(pieces) == text
    assert all(len(tokenizer.encode(piece)) <= limit for piece in pieces)


@pytest.mark.parametrize("text", ["word " * 20_000, "a" * 100_000])
def test_cutting_measures_each_character_a_bounded_number_of_times(text: str) -> None:
    measured = 0

    def fits(piece: str) -> bool:
        nonlocal measured
        measured += len(piece)
        return len(piece) <= 100

    pieces, was_cut = pieces_within(text, fits)
    assert was_cut
    assert "".join(pieces) == text
    assert measured < 30 * len(text)


@pytest.mark.parametrize(
    "text",
    ["Am 3. Oktober ist Feiertag.", "The U.S. Army came.", "Он ушёл. потом", "Das ist z.B. Käse."],
)
def test_ordinals_initials_and_small_letters_end_nothing(text: str) -> None:
    assert sentences(text) == [text]
