"""Text survives its way to ids and back, whatever subwords were learned."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from regard.config import build
from regard.errors import ConfigError, DataError, ModelError
from regard.text.config import TokenizerConfig
from regard.text.special import SPECIAL
from regard.text.tokenizer import Tokenizer, Tokenizers, normalized, train_tokenizers

KINDS = ("unigram", "bpe", "char", "word")
ENGLISH = ["the", "dog", "sleeps", "and", "runs", "to", "its", "house"]
GERMAN = ["Größe", "Straße", "schläft", "läuft", "wird", "würde"]
WORDS = [*ENGLISH, *GERMAN, "我爱你", "你好"]
MARKS = {SPECIAL.pad, SPECIAL.unknown, SPECIAL.start, SPECIAL.end}


def lines_of(words: Sequence[str], count: int = 200) -> list[str]:
    draw = random.Random(3)
    return [" ".join(draw.choices(words, k=draw.randint(2, 7))) for _ in range(count)]


LINES = lines_of(WORDS)


def learned(source: Sequence[str], target: Sequence[str] = (), **changes: Any) -> Tokenizers:
    config = build(TokenizerConfig, {"vocab_size": 340, **changes})
    return train_tokenizers(lambda: source, lambda: target or source, config)


@cache
def tokenizer(**changes: Any) -> Tokenizer:
    """A tokenizer of the lines above; each is learned once."""
    return learned(LINES, **changes).source


def marked(text: str) -> str:
    """How pieces write a text."""
    return "▁" + text.replace(" ", "▁")


# Everything but surrogates, which are no text, and U+2581, which SentencePiece writes for a space.
anything = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="▁"), max_size=60)
wordy = st.lists(st.sampled_from([*WORDS, " ", "  ", "\t", "é", "x", "<s>", "<0x41>"])).map("".join)
texts = anything | wordy

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


@pytest.mark.parametrize("error", [KeyboardInterrupt(), DataError("a damaged gzip file")])
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


# Sampling.


def sampled(text: str, seed: int, *, candidates: int = 16, temperature: float = 20.0) -> list[int]:
    generator = np.random.default_rng(seed)
    return tokenizer().sample(text, generator, candidates=candidates, temperature=temperature)


@settings(deadline=None)
@given(text=wordy, seed=st.integers(0, 2**32))
def test_a_sampled_cut_has_the_same_text(text: str, seed: int) -> None:
    assert tokenizer().decode(sampled(text, seed)) == text


@settings(deadline=None)
@given(text=wordy, seed=st.integers(0, 2**32))
def test_the_same_seed_draws_the_same_cut(text: str, seed: int) -> None:
    assert sampled(text, seed) == sampled(text, seed)


def test_different_seeds_draw_different_cuts() -> None:
    cuts = {tuple(sampled("the dog sleeps and runs", seed)) for seed in range(50)}
    assert len(cuts) > 5


def test_one_candidate_is_the_best_cut() -> None:
    text = "the dog sleeps and runs"
    assert all(sampled(text, seed, candidates=1) == tokenizer().encode(text) for seed in range(20))


def test_a_low_temperature_draws_the_best_cut() -> None:
    text = "the dog sleeps and runs"
    drawn = [sampled(text, seed, temperature=0.01) for seed in range(20)]
    assert drawn == [tokenizer().encode(text)] * 20


def test_sampling_normalizes_as_encoding_does() -> None:
    lower = tokenizer(lowercase=True)
    cut = lower.sample("The DOG", np.random.default_rng(0), candidates=4, temperature=5.0)
    assert lower.decode(cut) == "the dog"
