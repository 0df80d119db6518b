"""Tokenizers trained on a few words, and texts to test them with."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import Any

from hypothesis import strategies as st

from regard.config import build
from regard.text.base import Tokenizer
from regard.text.config import TokenizerConfig
from regard.text.tokenizer import Tokenizers, train_tokenizers

KINDS = ("unigram", "bpe", "char", "word")
ENGLISH = ["the", "dog", "sleeps", "and", "runs", "to", "its", "house"]
GERMAN = ["Größe", "Straße", "schläft", "läuft", "wird", "würde"]
WORDS = [*ENGLISH, *GERMAN, "我爱你", "你好"]


def random_lines(words: Sequence[str], count: int = 200) -> list[str]:
    rng = random.Random(3)
    return [" ".join(rng.choices(words, k=rng.randint(2, 7))) for _ in range(count)]


LINES = random_lines(WORDS)


def train_toy_tokenizers(
    source: Sequence[str], target: Sequence[str] = (), **changes: Any
) -> Tokenizers:
    config = build(TokenizerConfig, {"vocab_size": 340, **changes})
    return train_tokenizers(lambda: source, lambda: target or source, config)


@cache
def tokenizer(**changes: Any) -> Tokenizer:
    """A tokenizer trained on `LINES`; cached."""
    return train_toy_tokenizers(LINES, **changes).source


# All characters except surrogates and U+2581, SentencePiece's symbol for a space.
anything = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="▁"), max_size=60)
wordy = st.lists(st.sampled_from([*WORDS, " ", "  ", "\t", "é", "x", "<s>", "<0x41>"])).map("".join)
texts = anything | wordy
