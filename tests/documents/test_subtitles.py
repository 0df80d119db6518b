"""Subtitles: times, numbers, notes and settings stay; text is wrapped."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from documents.samples import SRT, VTT
from documents.translations import document_of, reverse, texts_of, translated, unchanged
from markup.markup_cases import tags
from regard.errors import DataError
from regard.markup.block import BlockText
from regard.markup.restore import restore


def cue(*lines: str, number: int = 1) -> str:
    return "\n".join([f"{number}", "00:00:01,000 --> 00:00:02,000", *lines, "", ""])


def with_text(content: str, translation: str) -> list[str]:
    """The lines of the only cue, with this translation of its plain text."""

    def translate(text: str) -> str:
        assert isinstance(text, BlockText)
        return restore(text.block, translation, [(i, i) for i in range(len(text.block.text))])

    return translated(content, "srt", translate).decode().splitlines()[2:-1]


@pytest.mark.parametrize(("content", "name"), [(SRT, "srt"), (VTT, "vtt")])
def test_only_the_text_of_cues_changes(content: str, name: str) -> None:
    output = translated(content, name, reverse).decode()  # type: ignore[arg-type]
    is_kept = re.compile(r"\d|-->|WEBVTT|NOTE|STYLE|::cue|a remark|that is not shown|first|^$")
    lines, expected = output.splitlines(), content.splitlines()
    assert [line for line in lines if is_kept.search(line)] == [
        line for line in expected if is_kept.search(line)
    ]


def test_webvtt() -> None:
    expected = VTT.replace("A <c.loud>big</c> dog &amp; a cat", "A <c.loud>BIG</c> DOG &amp; A CAT")
    assert translated(VTT, "vtt").decode() == expected.replace("They sleep.", "THEY SLEEP.")


def test_lines_are_joined_and_wrapped_again() -> None:
    content = cue("One line that is long enough", "to have a second one.")
    assert texts_of(content, "srt") == ["One line that is long enough\nto have a second one."]
    assert with_text(content, "Eine Zeile, die lang genug ist, um eine zweite zu haben.") == [
        "Eine Zeile, die lang genug",
        "ist, um eine zweite zu haben.",
    ]
    assert with_text(content, "Zwei Zeilen.") == ["Zwei Zeilen."]
    long = "x " * 60
    assert max(map(len, with_text(cue("One line."), long.strip()))) <= 42


def test_speakers_have_lines_of_their_own() -> None:
    content = cue("- Who is it?", "- A dog", "  and a cat.")
    assert texts_of(content, "srt") == ["Who is it?", "A dog\n  and a cat."]
    assert translated(content, "srt", reverse).decode() == cue("- IT? IS WHO", "- CAT. A AND DOG A")


def test_a_sentence_over_several_cues_is_translated_as_a_whole() -> None:
    content = cue("It goes to the house") + cue("and sleeps", number=2) + cue("Yes.", number=3)
    assert texts_of(content, "srt") == ["It goes to the house and sleeps", "Yes."]
    expected = cue("SLEEPS AND HOUSE THE") + cue("TO GOES IT", number=2) + cue("YES.", number=3)
    output = translated(content, "srt", reverse).decode()
    assert re.sub(r"\s+", " ", output) == re.sub(r"\s+", " ", expected)
    short = translated(content, "srt", lambda text: "Ja").decode()
    assert short == cue("Ja") + cue("", number=2) + cue("Ja", number=3)


@pytest.mark.parametrize(
    ("first", "second"),
    [("A dog.", "and"), ("A dog", "And"), ("<i>A dog</i>", "and"), ("12", "and")],
)
def test_other_cues_are_not_joined(first: str, second: str) -> None:
    content = cue(first) + cue(second, number=2)
    assert second in texts_of(content, "srt")
    assert translated(content, "srt").decode() == content.upper().replace("<I", "<i").replace(
        "/I>", "/i>"
    )


@pytest.mark.parametrize(
    "line",
    [
        *("{\\an8}text", "♪ text ♪", "<i>text", "text</i>", "<font color='#fff'>text</font>"),
        *("I <3 text", "2 < 3 text", "&amp; text", "<00:01.000>text <00:02.000>more", "{1} text"),
    ],
)
def test_markup_of_players_is_kept(line: str) -> None:
    assert translated(cue(line), "srt", unchanged).decode() == cue(line)
    output = translated(cue(line), "srt").decode()
    assert output == cue(line.replace("text", "TEXT").replace("more", "MORE"))


def test_cues_without_a_blank_line_between_them() -> None:
    content = "1\n00:00:01,000 --> 00:00:02,000\na.\n2\n00:00:03,000 --> 00:00:04,000\nb"
    assert texts_of(content, "srt") == ["a.", "b"]
    assert translated(content, "srt").decode() == content.replace("a", "A").replace("b", "B")


def test_line_ends_and_line_numbers() -> None:
    content = SRT.replace("\n", "\r\n")
    assert translated(content, "srt", reverse).replace(b"\r\n", b"").count(b"\n") == 0
    assert [text.number for text in document_of(SRT, "srt").texts] == [3, 8, 9, 13]


def test_chinese_is_wrapped_between_characters() -> None:
    content = cue("A long line of text that has to be", "divided into two lines.")
    lines = with_text(content, "这是一个很长的句子，必须分成两行，否则观众就看不完了。")
    assert len(lines) == 2
    assert not lines[1].startswith(("，", "。"))


@given(
    text=st.lists(
        st.sampled_from(
            ["word", "<i>", "</i>", "\n", " ", "- ", "字。", "{\\i1}", "&amp;", "<v A>"]
        ),
        max_size=12,
    )
)
def test_any_cue_keeps_its_words_and_tags(text: list[str]) -> None:
    content = "WEBVTT\n\n00:01.000 --> 00:02.000\n" + "".join(text) + "\n"
    assert translated(content, "vtt", unchanged).decode() == content
    output = translated(content, "vtt").decode()
    assert re.findall("字|word", output.lower()) == re.findall("字|word", content)
    assert tags(output) == tags(content)


def test_other_files_are_refused() -> None:
    with pytest.raises(DataError, match="a file has no subtitles: no line has times"):
        texts_of("some text", "srt")
    with pytest.raises(DataError, match='does not begin with "WEBVTT"'):
        texts_of(SRT, "vtt")
    assert texts_of("WEBVTT", "vtt") == []
