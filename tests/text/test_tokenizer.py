"""Text survives its way to ids and back, whatever subwords were learned."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings

from regard.errors import ConfigError, DataError, ModelError
from regard.text.config import TokenizerConfig
from regard.text.special import SPECIAL
from regard.text.tokenizer import Tokenizers, _pieces, normalized, train_tokenizers
from text.learned import (
    KINDS,
    LINES,
    learned,
    lines_of,
    texts,
    tokenizer,
)

MARKS = {SPECIAL.pad, SPECIAL.unknown, SPECIAL.start, SPECIAL.end}


def marked(text: str) -> str:
    """How pieces write a text."""
    return "▁" + text.replace(" ", "▁")


# There and back.


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None)
@example("")
@example(" ")
@example(" dog")
@example("dog ")
@example("the  dog")
@example("unseen words")
@example("\ufeffdog\u2028the\0dog\r\n")
@given(text=texts)
def test_any_text_comes_back_as_it_was(kind: str, text: str) -> None:
    subwords = tokenizer(kind=kind)
    assert subwords.decode(subwords.encode(text)) == text


@pytest.mark.parametrize("kind", KINDS)
def test_the_mark_that_stands_for_a_space_comes_back_as_a_space(kind: str) -> None:
    subwords = tokenizer(kind=kind)
    assert subwords.decode(subwords.encode("the▁dog▁▁unseen")) == "the dog  unseen"


@settings(deadline=None)
@given(text=texts)
def test_lower_casing_is_all_that_lowercase_changes(text: str) -> None:
    subwords = tokenizer(lowercase=True)
    assert subwords.decode(subwords.encode(text)) == text.lower()


@settings(deadline=None)
@given(text=texts)
def test_nfkc_is_all_that_nfkc_changes(text: str) -> None:
    subwords = tokenizer(nfkc=True)
    assert subwords.decode(subwords.encode(text)) == unicodedata.normalize("NFKC", text)


def test_lower_casing_keeps_the_german_sharp_s() -> None:
    subwords = tokenizer(lowercase=True)
    assert subwords.decode(subwords.encode("GROSSE Straße")) == "grosse straße"


def test_nothing_is_normalized_by_default() -> None:
    text = "Ｆｕｌｌ ﬁ e\u0301 Ⅷ STRASSE"
    assert normalized(text, TokenizerConfig()) == text


def test_nfkc_comes_before_lower_casing() -> None:
    assert normalized("ＡＢ", TokenizerConfig(nfkc=True, lowercase=True)) == "ab"


@settings(deadline=None)
@given(text=texts)
def test_text_is_never_written_with_marks(text: str) -> None:
    assert MARKS.isdisjoint(tokenizer().encode(text))


def test_marks_give_no_text() -> None:
    subwords = tokenizer()
    ids = [SPECIAL.start, *subwords.encode("the dog"), SPECIAL.end, SPECIAL.pad, SPECIAL.pad]
    assert subwords.decode(ids) == "the dog"
    assert subwords.decode([]) == ""


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_of_known_words_spell_the_text(kind: str) -> None:
    subwords = tokenizer(kind=kind)
    ids = subwords.encode("the dog läuft")
    assert len(subwords.pieces(ids)) == len(ids)
    assert "".join(subwords.pieces(ids)) == marked("the dog läuft")


def test_every_kind_cuts_in_its_own_way() -> None:
    assert tokenizer(kind="word").pieces(tokenizer(kind="word").encode("the dog")) == [
        "▁the",
        "▁dog",
    ]
    assert tokenizer(kind="char").pieces(tokenizer(kind="char").encode("the dog")) == [
        *marked("the dog")
    ]


# Learning.


@pytest.mark.parametrize("kind", KINDS)
def test_learning_twice_gives_the_same_subwords(kind: str) -> None:
    assert learned(LINES, kind=kind).source.model == tokenizer(kind=kind).model


@pytest.mark.parametrize("kind", KINDS)
def test_a_vocabulary_larger_than_the_text_allows_is_clipped(kind: str) -> None:
    large = tokenizer(kind=kind, vocab_size=30_000)
    assert 256 + len(MARKS) < large.vocab_size < 30_000
    assert large.vocab_size == tokenizer(kind=kind, vocab_size=60_000).vocab_size


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_the_vocabulary_has_the_size_that_was_asked_for(kind: str) -> None:
    assert tokenizer(kind=kind, vocab_size=300).vocab_size == 300


@pytest.mark.parametrize("size", [1, 260, 261, 280])
@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_a_vocabulary_too_small_is_refused_with_the_size_that_works(kind: str, size: int) -> None:
    letters = set("".join(LINES).replace(" ", "▁"))
    minimum = 256 + len(MARKS) + len(letters)
    with pytest.raises(ConfigError, match=f"--vocab-size {minimum} "):
        tokenizer(kind=kind, vocab_size=size)
    with pytest.raises(ConfigError):
        tokenizer(kind=kind, vocab_size=minimum - 1)
    assert tokenizer(kind=kind, vocab_size=minimum).vocab_size == minimum


@pytest.mark.parametrize("kind", ["char", "word"])
def test_characters_and_words_need_no_more_than_the_bytes(kind: str) -> None:
    with pytest.raises(ConfigError, match="--vocab-size 261 "):
        tokenizer(kind=kind, vocab_size=260)
    assert tokenizer(kind=kind, vocab_size=261).vocab_size == 261


def test_of_separate_vocabularies_the_larger_minimum_is_named() -> None:
    few, many = lines_of(["ab"]), lines_of(["abcdefgh"])
    for source, target in ((few, many), (many, few)):
        with pytest.raises(ConfigError, match="--vocab-size 269 "):
            learned(source, target, joint=False, vocab_size=262)
        assert learned(source, target, joint=False, vocab_size=269).source.vocab_size <= 269


def test_no_text_at_all_is_refused() -> None:
    with pytest.raises(DataError, match="could not learn"):
        train_tokenizers(list, list, TokenizerConfig(vocab_size=300))


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), SystemExit(143), DataError("a damaged gzip file")]
)
def test_what_stops_the_lines_stops_learning(error: BaseException) -> None:
    def lines() -> Iterator[str]:
        yield from LINES
        raise error

    with pytest.raises(type(error)) as caught:
        train_tokenizers(lines, list, TokenizerConfig(vocab_size=300))
    assert caught.value is error


def test_long_lines_are_learned_from_too() -> None:
    subwords = learned(["我爱你" * 500], kind="char").source
    assert subwords.pieces(subwords.encode("你爱我")) == [*marked("你爱我")]


def test_a_joint_vocabulary_knows_both_languages() -> None:
    both = learned(lines_of(["dog"]), lines_of(["狗"]), kind="char")
    assert both.source is both.target
    assert both.source.pieces(both.source.encode("dog狗")) == [*marked("dog狗")]


def test_separate_vocabularies_know_their_own_language_only() -> None:
    two = learned(lines_of(["dog"]), lines_of(["狗"]), kind="char", joint=False)
    assert two.source.pieces(two.source.encode("dog")) == [*marked("dog")]
    assert two.target.pieces(two.target.encode("狗")) == [*marked("狗")]
    assert two.source.pieces(two.source.encode("狗"))[1:] == ["<0xE7>", "<0x8B>", "<0x97>"]


# Files.


@pytest.mark.parametrize(
    ("joint", "names"), [(True, ["tokenizer.model"]), (False, ["source.model", "target.model"])]
)
def test_tokenizers_are_loaded_as_they_were_written(
    tmp_path: Path, joint: bool, names: list[str]
) -> None:
    made = learned(LINES, lines_of(["other", "words"]), joint=joint, lowercase=True)
    assert sorted(made.files()) == names
    for name, content in made.files().items():
        (tmp_path / name).write_bytes(content)
    found = Tokenizers.load(tmp_path, made.config)
    for text in ("The dog", "other words"):
        assert found.source.encode(text) == made.source.encode(text)
        assert found.target.encode(text) == made.target.encode(text)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    made = learned(LINES, joint=False)
    (tmp_path / "source.model").write_bytes(made.source.model)
    with pytest.raises(ModelError, match=r"target\.model is missing"):
        Tokenizers.load(tmp_path, made.config)


@pytest.mark.parametrize("content", [b"", b"no model", None])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes | None) -> None:
    half = tokenizer().model[: len(tokenizer().model) // 2]
    (tmp_path / "tokenizer.model").write_bytes(half if content is None else content)
    with pytest.raises(ModelError, match=r"tokenizer\.model is damaged"):
        Tokenizers.load(tmp_path, TokenizerConfig())


def test_a_line_that_repeats_itself_does_not_take_hours() -> None:
    lines = ["word " * 20_000, "x" * 100_000, "a dog runs"]
    config = TokenizerConfig(vocab_size=300)
    tokenizer = train_tokenizers(lambda: lines, list, config).source
    assert tokenizer.decode(tokenizer.encode("a word runs")) == "a word runs"


def test_a_long_line_is_read_in_parts_of_whole_words() -> None:
    words = [f"word{number}" for number in range(1000)]
    parts = [*_pieces(" ".join(words))]
    assert len(parts) > 1
    assert max(map(len, parts)) <= 2000
    assert " ".join(parts).split() == words
    assert [*_pieces("a short line ")] == ["a short line "]


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char"])
def test_character_coverage_decides_which_characters_are_subwords(kind: str) -> None:
    lines = [*lines_of(["dog", "sleeps"], 2000), "ж"]  # one of some 20,000 characters
    covering = {
        share: learned(lines, kind=kind, vocab_size=300, character_coverage=share).source
        for share in (0.98, 1.0)
    }
    spelled = {share: len(one.encode("ж")) for share, one in covering.items()}
    assert spelled[1.0] < spelled[0.98]
    assert all(one.decode(one.encode("ж")) == "ж" for one in covering.values())


def test_a_coverage_that_sentencepiece_refuses_is_a_sentence() -> None:
    with pytest.raises(ConfigError, match=r"is 0\.5, and must be at least 0\.98"):
        learned(LINES, character_coverage=0.5)
