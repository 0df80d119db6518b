"""Text is taken apart and put together again with nothing lost between."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.decoding.segments import joined, segments
from regard.models.folder import Training

SINGLE, SEVERAL = Training(10, 0.0), Training(10, 0.2)


def words(text: str) -> int:
    return len(text.split())


def parts(text: str, seen: Training = SINGLE, limit: int = 10) -> list[str]:
    return [part.text for part in segments(text, words, limit, seen).parts if part.text]


@given(st.text(alphabet="ab .!?\n\r\t\u2028。我", max_size=60))
def test_untranslated_parts_give_the_text_back(text: str) -> None:
    taken = segments(text, words, 3, SINGLE)
    whole = "".join(part.before + part.text + part.after for part in taken.parts)
    assert whole == text


def test_sentences_are_taken_one_by_one_if_that_is_what_was_seen() -> None:
    assert parts("A dog runs. It is fast!") == ["A dog runs.", "It is fast!"]


def test_short_lines_stay_whole_if_several_sentences_were_seen() -> None:
    assert parts("A dog runs. It is fast!", SEVERAL) == ["A dog runs. It is fast!"]


def test_long_lines_are_split_at_sentence_ends() -> None:
    text = "One two three four. Five six seven. Eight nine ten eleven."
    assert parts(text, SEVERAL, limit=7) == [
        "One two three four. Five six seven.",
        "Eight nine ten eleven.",
    ]


def test_a_sentence_over_the_limit_is_cut_at_a_space_and_says_so() -> None:
    taken = segments("a b c d e f g", words, 3, SINGLE)
    assert [part.text for part in taken.parts] == ["a b c", "d e f", "g"]
    assert taken.was_cut
    assert not segments("a b c", words, 3, SINGLE).was_cut


@pytest.mark.parametrize("text", ["", " ", "\n", "\n\n  \n", "a\u2028b", "a\n\nb\n", "\ta \n b"])
def test_breaks_and_spaces_stay_where_they_are(text: str) -> None:
    taken = segments(text, words, 10, SINGLE)
    assert joined(taken.parts, [part.text.upper() for part in taken.parts]) == text.upper()


def test_sentences_are_joined_as_their_script_wants() -> None:
    chinese = segments("我爱你。你呢？", len, 10, SINGLE)
    assert joined(chinese.parts, ["I love you.", "And you?"]) == "I love you. And you?"
    english = segments("I love you. And you?", words, 10, SINGLE)
    assert joined(english.parts, ["我爱你。", "你呢？"]) == "我爱你。你呢？"
