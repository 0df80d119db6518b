"""Texts are split into segments and joined without loss."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.models.folder import DataStatistics
from regard.pipelines.segments import join_segments, split_text

SINGLE, SEVERAL = DataStatistics(10, 0.0), DataStatistics(10, 0.2)


def count_words(text: str) -> int:
    return len(text.split())


def segments(text: str, statistics: DataStatistics = SINGLE, limit: int = 10) -> list[str]:
    parts = split_text(text, count_words, limit, statistics).parts
    return [part.text for part in parts if part.text]


@given(st.text(alphabet="ab .!?\n\r\t\u2028。我", max_size=60))
def test_joined_parts_are_the_text(text: str) -> None:
    parts = split_text(text, count_words, 3, SINGLE).parts
    assert "".join(part.before + part.text + part.after for part in parts) == text


def test_lines_are_split_into_sentences_if_training_lines_are_sentences() -> None:
    assert segments("A dog runs. It is fast!") == ["A dog runs.", "It is fast!"]


def test_short_lines_are_not_split_if_training_lines_have_several_sentences() -> None:
    assert segments("A dog runs. It is fast!", SEVERAL) == ["A dog runs. It is fast!"]


def test_long_lines_are_split_at_sentence_ends() -> None:
    text = "One two three four. Five six seven. Eight nine ten eleven."
    assert segments(text, SEVERAL, limit=7) == [
        "One two three four. Five six seven.",
        "Eight nine ten eleven.",
    ]


def test_sentence_over_the_limit_is_split_at_spaces() -> None:
    result = split_text("a b c d e f g", count_words, 3, SINGLE)
    assert [part.text for part in result.parts] == ["a b c", "d e f", "g"]
    assert result.was_split
    assert not split_text("a b c", count_words, 3, SINGLE).was_split


@pytest.mark.parametrize("text", ["", " ", "\n", "\n\n  \n", "a\u2028b", "a\n\nb\n", "\ta \n b"])
def test_line_breaks_and_spaces_are_preserved(text: str) -> None:
    parts = split_text(text, count_words, 10, SINGLE).parts
    joined, starts = join_segments(parts, [part.text.upper() for part in parts])
    assert joined == text.upper()
    for start, part in zip(starts, parts, strict=True):
        assert text[start:].startswith(part.text)


def test_space_between_sentences_depends_on_the_script() -> None:
    chinese = split_text("我爱你。你呢？", len, 10, SINGLE)
    assert join_segments(chinese.parts, ["I love you.", "And you?"])[0] == "I love you. And you?"
    english = split_text("I love you. And you?", count_words, 10, SINGLE)
    assert join_segments(english.parts, ["我爱你。", "你呢？"])[0] == "我爱你。你呢？"
