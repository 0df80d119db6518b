"""Words cover a text without overlap, in any script."""

from __future__ import annotations

import pytest
from hypothesis import given

from regard.text.words import word_spans
from text.toy_tokenizers import texts


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Ein Hund.", ["Ein", "Hund", "."]),
        ("don't rot-weiß l’eau", ["don't", "rot-weiß", "l’eau"]),
        ("3.5 1,000 2024-11-19 5.", ["3.5", "1,000", "2024-11-19", "5", "."]),
        ("Hund.Katze -a 'b' ...", ["Hund", ".", "Katze", "-", "a", "'", "b", "'", ".", ".", "."]),
        ("我爱你, 2人", ["我", "爱", "你", ",", "2", "人"]),
        ("カメラで", ["カ", "メ", "ラ", "で"]),
        ("हिन्दी में", ["हिन्दी", "में"]),  # vowel signs are marks, not letters
        ("<b>x</b> €5", ["<", "b", ">", "x", "<", "/", "b", ">", "€", "5"]),
        ("", []),
        (" \t\u3000", []),
    ],
)
def test_words_of_texts(text: str, words: list[str]) -> None:
    assert [text[start:end] for start, end in word_spans(text)] == words


@given(texts)
def test_words_cover_all_but_spaces(text: str) -> None:
    end = 0
    for start, next_end in word_spans(text):
        assert text[end:start].strip() == ""
        assert start < next_end
        assert not any(character.isspace() for character in text[start:next_end])
        end = next_end
    assert text[end:].strip() == ""
