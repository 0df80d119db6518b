"""Exported tokenizer files tokenize equally without regard."""

from __future__ import annotations

import random
import sys
import unicodedata
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from regard.exchange import ctranslate2
from regard.exchange.normalizer import normalizer_notice, sentencepiece_with_normalizer
from regard.models.folder import DataStatistics, ModelFolder
from regard.models.protocol import Vocabulary
from regard.models.transformer import TransformerConfig
from regard.text.config import TokenizerConfig
from regard.text.tokenizer import (
    SentencePieceTokenizer,
    Tokenizers,
    normalize_text,
    train_tokenizers,
)

CONFIGS = [
    TokenizerConfig(vocab_size=500, nfkc=nfkc, lowercase=lowercase)
    for nfkc, lowercase in [(False, True), (True, False), (True, True)]
]
LETTERS = [
    letter
    for letter in map(chr, range(32, sys.maxunicode + 1))
    if unicodedata.category(letter) not in ("Cs", "Cn", "Co", "Cc")
]


def lines() -> list[str]:
    draw = random.Random(1)
    words = ["Hund", "CAFÉ", "straße", "Ärger", "ﬁne", "ΟΔΟΣ", "Ｗide", "猫が", "the", "Ⅳ", "İzmir"]
    return [" ".join(draw.choices(words, k=6)) for _ in range(200)]


@pytest.fixture(scope="module", params=CONFIGS, ids=["lower", "nfkc", "both"])
def tokenizers(request: pytest.FixtureRequest) -> Tokenizers:
    return train_tokenizers(lines, lines, request.param, tags=["<2DE>"])


@pytest.fixture(scope="module")
def exported(tokenizers: Tokenizers) -> bytes:
    return sentencepiece_with_normalizer(tokenizers.source)


@pytest.fixture(scope="module")
def processor(exported: bytes) -> sentencepiece.SentencePieceProcessor:
    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(exported)
    return processor


@pytest.fixture(scope="module")
def reloaded(exported: bytes, tokenizers: Tokenizers) -> SentencePieceTokenizer:
    return SentencePieceTokenizer(exported, tokenizers.config)


def is_context_free(text: str, config: TokenizerConfig) -> bool:
    return "".join(normalize_text(letter, config) for letter in text) == normalize_text(
        text, config
    )


TEXTS = st.lists(
    st.one_of(
        st.sampled_from(["<2DE> ", " ", "  ", "É", "e\u0301", "Hund", "CAFÉ ", "ΟΔΟΣ!", "ẞ"]),
        st.sampled_from(LETTERS),
    ),
    max_size=12,
).map("".join)


@settings(max_examples=400)
@given(text=TEXTS)
def test_exported_model_gives_the_same_ids(
    text: str, tokenizers: Tokenizers, processor: sentencepiece.SentencePieceProcessor
) -> None:
    assume(is_context_free(text, tokenizers.config))
    assert processor.encode(text) == tokenizers.source.encode(text)


@settings(max_examples=100)
@given(text=TEXTS)
def test_reloaded_tokenizer_is_equal(
    text: str, tokenizers: Tokenizers, reloaded: SentencePieceTokenizer
) -> None:
    assert reloaded == tokenizers.source
    assert reloaded.encode(text) == tokenizers.source.encode(text)


def test_exported_folders_have_normalizing_tokenizers(
    tokenizers: Tokenizers, tmp_path: Path
) -> None:
    size = tokenizers.source.vocab_size
    folder = ModelFolder(
        Vocabulary(size, size, joint=True),
        tokenizers,
        {"source": "de", "target": "de"},
        DataStatistics(9, 0.0),
        TransformerConfig(num_encoder_layers=1, num_decoder_layers=1, d_model=8, num_heads=1),
    )
    ctranslate2.export(folder, folder.model(), tmp_path / "out")
    processor = sentencepiece.SentencePieceProcessor(
        model_file=str(tmp_path / "out/tokenizer.model")
    )
    text = "Ein Hund im CAFÉ an der STRASSE"
    assert processor.encode(text, out_type=str) == tokenizers.source.ids_to_tokens(
        tokenizers.source.encode(text)
    )
    assert ModelFolder.read(tmp_path / "out").tokenizers == tokenizers
    assert "Greek" in normalizer_notice(tokenizers.config)


def test_no_notice_without_normalization() -> None:
    assert not normalizer_notice(TokenizerConfig())
