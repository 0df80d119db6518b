"""Sentence splitting and splitting into fitting segments: lossless, and linear in time."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.text.base import Tokenizer
from regard.text.config import TokenizerConfig
from regard.text.sentences import split_sentences, split_to_fit
from regard.text.tokenizer import train_tokenizers

# Text with many characters that occur at sentence ends.
stops = st.text("aB .!?…。！\"')”(«¿m\t\u3000", max_size=60)
texts = st.text(max_size=60) | stops


def shorter_than(limit: int) -> Callable[[str], bool]:
    return lambda text: len(text) <= limit


# Sentences.


@settings(deadline=None)
@given(texts)
def test_sentences_concatenate_to_the_text(text: str) -> None:
    assert "".join(split_sentences(text)) == text


@settings(deadline=None)
@given(texts)
def test_sentences_are_not_empty_unless_the_text_is(text: str) -> None:
    assert split_sentences(text) == [""] if not text else all(split_sentences(text))


@pytest.mark.parametrize(
    "segments",
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
def test_sentences_end_after_stop_and_whitespace(segments: list[str]) -> None:
    assert split_sentences("".join(segments)) == segments


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
def test_text_without_sentence_end_is_not_split(text: str) -> None:
    assert split_sentences(text) == [text]


@pytest.mark.parametrize("text", ["." * 300_000, "A. " * 200_000, "?! " * 100_000 + "end"])
def test_splitting_a_megabyte_takes_linear_time(text: str) -> None:
    # A search from every dot, or of the whole line for every abbreviation, would take hours.
    assert split_sentences(text) == [text]


# Segments.


@settings(deadline=None)
@given(texts, st.integers(1, 30))
def test_segments_fit_and_concatenate_to_the_text(text: str, limit: int) -> None:
    segments, _ = split_to_fit(text, shorter_than(limit))
    assert "".join(segments) == text
    assert all(len(segment) <= limit for segment in segments)


@settings(deadline=None)
@given(texts, st.integers(1, 30))
def test_split_sentences_are_reported(text: str, limit: int) -> None:
    _, was_split = split_to_fit(text, shorter_than(limit))
    assert was_split == any(len(sentence) > limit for sentence in split_sentences(text))


@settings(deadline=None)
@given(texts)
def test_fitting_text_is_one_segment(text: str) -> None:
    assert split_to_fit(text, shorter_than(len(text))) == ([text], False)


@settings(deadline=None)
@given(stops, st.integers(1, 30))
def test_segments_are_maximal(text: str, limit: int) -> None:
    segments, was_split = split_to_fit(text, shorter_than(limit))
    if not was_split:
        for segment, following in pairwise(segments):
            assert len(segment) + len(split_sentences(following)[0]) > limit


@settings(deadline=None)
@given(st.lists(st.text("abc", min_size=1, max_size=8), min_size=1), st.integers(9, 30))
def test_fitting_words_are_not_split(words: list[str], limit: int) -> None:
    segments, _ = split_to_fit(" ".join(words), shorter_than(limit))
    assert [word for segment in segments for word in segment.split()] == words


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("One. Two. Three.", ["One. Two. ", "Three."]),
        ("one two three", ["one two ", "three"]),
        ("one two three four", ["one two ", "three four"]),
        ("onetwothreefour", ["onetwothre", "efour"]),
        ("一二三四五，六七八九十一", ["一二三四五，", "六七八九十一"]),
        ("Short. And one that is long.", ["Short. ", "And one ", "that is ", "long."]),
    ],
)
def test_splits_at_sentence_ends_then_spaces_then_anywhere(text: str, segments: list[str]) -> None:
    assert split_to_fit(text, shorter_than(10))[0] == segments


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    lines = ["the dog sleeps", "a dog runs and sleeps", "the house is small", "我爱你，你爱我"] * 20
    return train_tokenizers(lambda: lines, list, TokenizerConfig(vocab_size=330)).source


@settings(deadline=None)
@given(
    words=st.lists(st.sampled_from(["the", "dog ", "sleeps ", "ru", "我爱", "你，", "é", ". A"])),
    limit=st.integers(6, 20),
)
def test_segments_fit_when_subwords_are_counted(
    tokenizer: Tokenizer, words: list[str], limit: int
) -> None:
    text = "".join(words)
    segments, _ = split_to_fit(text, lambda segment: len(tokenizer.encode(segment)) <= limit)
    assert "".join(segments) == text
    assert all(len(tokenizer.encode(segment)) <= limit for segment in segments)


@pytest.mark.parametrize("text", ["word " * 20_000, "a" * 100_000])
def test_splitting_calls_fits_for_a_linear_number_of_characters(text: str) -> None:
    measured = 0

    def fits(segment: str) -> bool:
        nonlocal measured
        measured += len(segment)
        return len(segment) <= 100

    segments, was_split = split_to_fit(text, fits)
    assert was_split
    assert "".join(segments) == text
    assert measured < 30 * len(text)


@pytest.mark.parametrize(
    "text",
    ["Am 3. Oktober ist Feiertag.", "The U.S. Army came.", "Он ушёл. потом", "Das ist z.B. Käse."],
)
def test_ordinals_initials_and_lowercase_do_not_end_a_sentence(text: str) -> None:
    assert split_sentences(text) == [text]
