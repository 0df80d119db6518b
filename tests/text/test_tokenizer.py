"""SentencePiece tokenizers: lossless round trips, training, files."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings

from regard.errors import ConfigError, DataError, ModelError
from regard.text.config import TokenizerConfig
from regard.text.special import SPECIAL
from regard.text.tokenizer import Tokenizers, _split_long_line, normalize_text, train_tokenizers
from text.toy_tokenizers import (
    KINDS,
    LINES,
    random_lines,
    texts,
    tokenizer,
    train_toy_tokenizers,
)

SPECIAL_IDS = {SPECIAL.pad, SPECIAL.unk, SPECIAL.bos, SPECIAL.eos}


def with_space_symbols(text: str) -> str:
    """The text with SentencePiece's symbol for spaces."""
    return "▁" + text.replace(" ", "▁")


# Round trips.


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
def test_any_text_round_trips(kind: str, text: str) -> None:
    subwords = tokenizer(kind=kind)
    assert subwords.decode(subwords.encode(text)) == text


@pytest.mark.parametrize("kind", KINDS)
def test_space_symbol_decodes_to_a_space(kind: str) -> None:
    subwords = tokenizer(kind=kind)
    assert subwords.decode(subwords.encode("the▁dog▁▁unseen")) == "the dog  unseen"


@settings(deadline=None)
@given(text=texts)
def test_lowercase_only_lowercases(text: str) -> None:
    subwords = tokenizer(lowercase=True)
    assert subwords.decode(subwords.encode(text)) == text.lower()


@settings(deadline=None)
@given(text=texts)
def test_nfkc_only_applies_nfkc(text: str) -> None:
    subwords = tokenizer(nfkc=True)
    assert subwords.decode(subwords.encode(text)) == unicodedata.normalize("NFKC", text)


def test_lowercase_keeps_sharp_s() -> None:
    subwords = tokenizer(lowercase=True)
    assert subwords.decode(subwords.encode("GROSSE Straße")) == "grosse straße"


def test_nothing_is_normalized_by_default() -> None:
    text = "Ｆｕｌｌ ﬁ e\u0301 Ⅷ STRASSE"
    assert normalize_text(text, TokenizerConfig()) == text


def test_nfkc_is_applied_before_lowercase() -> None:
    assert normalize_text("ＡＢ", TokenizerConfig(nfkc=True, lowercase=True)) == "ab"


@settings(deadline=None)
@given(text=texts)
def test_encoded_text_has_no_special_tokens(text: str) -> None:
    assert SPECIAL_IDS.isdisjoint(tokenizer().encode(text))


def test_special_tokens_are_skipped_in_decoding() -> None:
    subwords = tokenizer()
    ids = [SPECIAL.bos, *subwords.encode("the dog"), SPECIAL.eos, SPECIAL.pad, SPECIAL.pad]
    assert subwords.decode(ids) == "the dog"
    assert subwords.decode([]) == ""


@pytest.mark.parametrize("kind", KINDS)
def test_trained_known_words_concatenate_to_the_text(kind: str) -> None:
    subwords = tokenizer(kind=kind)
    ids = subwords.encode("the dog läuft")
    assert len(subwords.ids_to_tokens(ids)) == len(ids)
    assert "".join(subwords.ids_to_tokens(ids)) == with_space_symbols("the dog läuft")


def test_word_and_char_tokenizers_split_into_words_and_characters() -> None:
    assert tokenizer(kind="word").ids_to_tokens(tokenizer(kind="word").encode("the dog")) == [
        "▁the",
        "▁dog",
    ]
    assert tokenizer(kind="char").ids_to_tokens(tokenizer(kind="char").encode("the dog")) == [
        *with_space_symbols("the dog")
    ]


# Training.


@pytest.mark.parametrize("kind", KINDS)
def test_training_is_deterministic(kind: str) -> None:
    assert train_toy_tokenizers(LINES, kind=kind).source.model == tokenizer(kind=kind).model


@pytest.mark.parametrize("kind", KINDS)
def test_vocab_size_is_reduced_if_the_text_is_small(kind: str) -> None:
    large = tokenizer(kind=kind, vocab_size=30_000)
    assert 256 + len(SPECIAL_IDS) < large.vocab_size < 30_000
    assert large.vocab_size == tokenizer(kind=kind, vocab_size=60_000).vocab_size


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_vocabulary_has_the_configured_size(kind: str) -> None:
    assert tokenizer(kind=kind, vocab_size=300).vocab_size == 300


@pytest.mark.parametrize("size", [1, 260, 261, 280])
@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_error_for_small_vocab_size_names_the_minimum(kind: str, size: int) -> None:
    letters = set("".join(LINES).replace(" ", "▁"))
    minimum = 256 + len(SPECIAL_IDS) + len(letters)
    with pytest.raises(ConfigError, match=f"--vocab-size {minimum} "):
        tokenizer(kind=kind, vocab_size=size)
    with pytest.raises(ConfigError):
        tokenizer(kind=kind, vocab_size=minimum - 1)
    assert tokenizer(kind=kind, vocab_size=minimum).vocab_size == minimum


@pytest.mark.parametrize("kind", ["char", "word"])
def test_minimum_vocab_size_of_char_and_word_tokenizers(kind: str) -> None:
    with pytest.raises(ConfigError, match="--vocab-size 261 "):
        tokenizer(kind=kind, vocab_size=260)
    assert tokenizer(kind=kind, vocab_size=261).vocab_size == 261


def test_larger_minimum_of_separate_vocabularies_is_named() -> None:
    few, many = random_lines(["ab"]), random_lines(["abcdefgh"])
    for source, target in ((few, many), (many, few)):
        with pytest.raises(ConfigError, match="--vocab-size 269 "):
            train_toy_tokenizers(source, target, joint=False, vocab_size=262)
        assert (
            train_toy_tokenizers(source, target, joint=False, vocab_size=269).source.vocab_size
            <= 269
        )


def test_empty_text_is_rejected() -> None:
    with pytest.raises(DataError, match="could not train"):
        train_tokenizers(list, list, TokenizerConfig(vocab_size=300))


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), SystemExit(143), DataError("a damaged gzip file")]
)
def test_errors_of_the_line_iterator_are_raised(error: BaseException) -> None:
    def lines() -> Iterator[str]:
        yield from LINES
        raise error

    with pytest.raises(type(error)) as caught:
        train_tokenizers(lines, list, TokenizerConfig(vocab_size=300))
    assert caught.value is error


def test_long_lines_are_used_for_training() -> None:
    subwords = train_toy_tokenizers(["我爱你" * 500], kind="char").source
    assert subwords.ids_to_tokens(subwords.encode("你爱我")) == [*with_space_symbols("你爱我")]


def test_joint_vocabulary_covers_both_languages() -> None:
    both = train_toy_tokenizers(random_lines(["dog"]), random_lines(["狗"]), kind="char")
    assert both.source is both.target
    assert both.source.ids_to_tokens(both.source.encode("dog狗")) == [*with_space_symbols("dog狗")]


def test_separate_vocabularies_cover_one_language_each() -> None:
    two = train_toy_tokenizers(
        random_lines(["dog"]), random_lines(["狗"]), kind="char", joint=False
    )
    assert two.source.ids_to_tokens(two.source.encode("dog")) == [*with_space_symbols("dog")]
    assert two.target.ids_to_tokens(two.target.encode("狗")) == [*with_space_symbols("狗")]
    assert two.source.ids_to_tokens(two.source.encode("狗"))[1:] == ["<0xE7>", "<0x8B>", "<0x97>"]


# Files.


@pytest.mark.parametrize(
    ("joint", "names"), [(True, ["tokenizer.model"]), (False, ["source.model", "target.model"])]
)
def test_tokenizers_encode_the_same_after_loading(
    tmp_path: Path, joint: bool, names: list[str]
) -> None:
    original = train_toy_tokenizers(
        LINES, random_lines(["other", "words"]), joint=joint, lowercase=True
    )
    assert sorted(original.files()) == names
    for name, content in original.files().items():
        (tmp_path / name).write_bytes(content)
    loaded = Tokenizers.load(tmp_path, original.config)
    for text in ("The dog", "other words"):
        assert loaded.source.encode(text) == original.source.encode(text)
        assert loaded.target.encode(text) == original.target.encode(text)


def test_missing_file_is_named(tmp_path: Path) -> None:
    original = train_toy_tokenizers(LINES, joint=False)
    (tmp_path / "source.model").write_bytes(original.source.model)
    with pytest.raises(ModelError, match=r"target\.model is missing"):
        Tokenizers.load(tmp_path, original.config)


@pytest.mark.parametrize("content", [b"", b"no model", None])
def test_damaged_file_is_named(tmp_path: Path, content: bytes | None) -> None:
    half = tokenizer().model[: len(tokenizer().model) // 2]
    (tmp_path / "tokenizer.model").write_bytes(half if content is None else content)
    with pytest.raises(ModelError, match=r"tokenizer\.model is damaged"):
        Tokenizers.load(tmp_path, TokenizerConfig())


def test_training_on_repetitive_lines_is_fast() -> None:
    lines = ["word " * 20_000, "x" * 100_000, "a dog runs"]
    config = TokenizerConfig(vocab_size=300)
    tokenizer = train_tokenizers(lambda: lines, list, config).source
    assert tokenizer.decode(tokenizer.encode("a word runs")) == "a word runs"


def test_long_lines_are_split_at_words() -> None:
    words = [f"word{number}" for number in range(1000)]
    parts = [*_split_long_line(" ".join(words))]
    assert len(parts) > 1
    assert max(map(len, parts)) <= 2000
    assert " ".join(parts).split() == words
    assert [*_split_long_line("a short line ")] == ["a short line "]


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char"])
def test_character_coverage_limits_the_vocabulary(kind: str) -> None:
    lines = [*random_lines(["dog", "sleeps"], 2000), "ж"]  # one of some 20,000 characters
    covering = {
        coverage: train_toy_tokenizers(
            lines, kind=kind, vocab_size=300, character_coverage=coverage
        ).source
        for coverage in (0.98, 1.0)
    }
    num_tokens = {coverage: len(trained.encode("ж")) for coverage, trained in covering.items()}
    assert num_tokens[1.0] < num_tokens[0.98]
    assert all(trained.decode(trained.encode("ж")) == "ж" for trained in covering.values())


def test_too_low_character_coverage_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"is 0\.5, but must be at least 0\.98"):
        train_toy_tokenizers(LINES, character_coverage=0.5)
