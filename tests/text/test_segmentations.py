"""Segmentations of words: complete, in order of length, and of the same text."""

from __future__ import annotations

import pytest

from regard.config import build
from regard.text.config import TokenizerConfig
from regard.text.segmentations import continues_word, segmentations
from regard.text.tokenizer import train_tokenizers

LINES = ["the lower newer widest the lowest new wide", "a low new wider one"] * 30


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char"])
def test_all_segmentations_of_a_word(kind: str) -> None:
    config = build(TokenizerConfig, {"kind": kind, "vocab_size": 310})
    tokenizer = train_tokenizers(lambda: LINES, lambda: LINES, config).target
    sequences = segmentations("lower", tokenizer)
    assert tokenizer.encode("lower") in sequences
    assert [len(ids) for ids in sequences] == sorted(len(ids) for ids in sequences)
    assert len({*map(tuple, sequences)}) == len(sequences) <= 256
    assert all(tokenizer.decode(ids) == "lower" for ids in sequences)
    tokens = {*tokenizer.ids_to_tokens(range(tokenizer.vocab_size))}
    expected = 0
    for cuts in range(2**5):
        parts = ["▁"]
        for index, letter in enumerate("lower"):
            if cuts >> index & 1:
                parts.append(letter)
            else:
                parts[-1] += letter
        expected += {*parts} <= tokens
    assert len(sequences) == expected
    inside = segmentations("lower", tokenizer, inside=True)
    assert all("".join(tokenizer.ids_to_tokens(ids)) == "lower" for ids in inside)


def test_bytes_are_not_segmented() -> None:
    config = build(TokenizerConfig, {"vocab_size": 300})
    tokenizer = train_tokenizers(lambda: LINES, lambda: LINES, config).target
    assert segmentations("ß€", tokenizer) == [tokenizer.encode("ß€")]
    assert segmentations("ß€", tokenizer, inside=True) == [tokenizer.encode("ß€")[1:]]


def test_number_of_segmentations_is_limited() -> None:
    lines = ["a" * length for length in range(1, 30)] * 20
    config = build(TokenizerConfig, {"vocab_size": 300})
    tokenizer = train_tokenizers(lambda: lines, lambda: lines, config).target
    assert len(segmentations("a" * 40, tokenizer)) == 256


def test_long_texts_take_no_exponential_time() -> None:
    config = build(TokenizerConfig, {"kind": "bpe", "vocab_size": 310})
    tokenizer = train_tokenizers(lambda: LINES, lambda: LINES, config).target
    text = " ".join(LINES * 2)  # of which too many segmentations have the same number of tokens
    sequences = segmentations(text, tokenizer)
    assert len({*map(tuple, sequences)}) == 256
    assert all(tokenizer.decode(ids) == text for ids in sequences)
    assert len(sequences[0]) <= len(tokenizer.encode(text))


@pytest.mark.parametrize("kind", ["unigram", "char", "word"])
def test_tokens_that_continue_a_word(kind: str) -> None:
    lines = ["new news, 'newer' 猫好 a-b 3.5"] * 30
    config = build(TokenizerConfig, {"kind": kind, "vocab_size": 320})
    tokenizer = train_tokenizers(lambda: lines, lambda: lines, config).target
    tokens = tokenizer.ids_to_tokens(range(tokenizer.vocab_size))
    continues = dict(zip(tokens, continues_word(tokenizer), strict=True))
    for token, continues_it in continues.items():
        if len(token) == 1 or token.startswith("▁"):
            assert continues_it == (token.isascii() and token.isalnum()), token
    assert continues["<0x41>"]
    assert continues["<0xC3>"]
    assert not continues["<0x20>"]
    assert not continues["<0x2C>"]
    assert not any(continues[token] for token in tokens[:4])
