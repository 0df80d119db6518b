"""An exported tokenizer file gives other programs the pieces that the model was trained with."""

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
from regard.exchange.normalizer import note_on_rules, self_normalizing
from regard.models.folder import ModelFolder, Training
from regard.models.protocol import Vocabulary
from regard.models.transformer import TransformerConfig
from regard.text.config import TokenizerConfig
from regard.text.tokenizer import (
    SentencePieceTokenizer,
    Tokenizers,
    normalized,
    train_tokenizers,
)

FORMS = [
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


@pytest.fixture(scope="module", params=FORMS, ids=["lower", "nfkc", "both"])
def tokenizers(request: pytest.FixtureRequest) -> Tokenizers:
    return train_tokenizers(lines, lines, request.param, tags=["<2DE>"])


@pytest.fixture(scope="module")
def exported(tokenizers: Tokenizers) -> bytes:
    return self_normalizing(tokenizers.source)


@pytest.fixture(scope="module")
def alone(exported: bytes) -> sentencepiece.SentencePieceProcessor:
    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(exported)
    return processor


@pytest.fixture(scope="module")
def read_again(exported: bytes, tokenizers: Tokenizers) -> SentencePieceTokenizer:
    return SentencePieceTokenizer(exported, tokenizers.config)


def is_context_free(text: str, config: TokenizerConfig) -> bool:
    return "".join(normalized(letter, config) for letter in text) == normalized(text, config)


TEXTS = st.lists(
    st.one_of(
        st.sampled_from(["<2DE> ", " ", "  ", "É", "e\u0301", "Hund", "CAFÉ ", "ΟΔΟΣ!", "ẞ"]),
        st.sampled_from(LETTERS),
    ),
    max_size=12,
).map("".join)


@settings(max_examples=400)
@given(text=TEXTS)
def test_sentencepiece_alone_gives_the_same_ids(
    text: str, tokenizers: Tokenizers, alone: sentencepiece.SentencePieceProcessor
) -> None:
    assume(is_context_free(text, tokenizers.config))
    assert alone.encode(text) == tokenizers.source.encode(text)


@settings(max_examples=100)
@given(text=TEXTS)
def test_our_own_reading_of_the_file_is_exact(
    text: str, tokenizers: Tokenizers, read_again: SentencePieceTokenizer
) -> None:
    assert read_again == tokenizers.source
    assert read_again.encode(text) == tokenizers.source.encode(text)


def test_exported_folders_have_such_files(tokenizers: Tokenizers, tmp_path: Path) -> None:
    size = tokenizers.source.vocab_size
    folder = ModelFolder(
        TransformerConfig(encoder_layers=1, decoder_layers=1, width=8, heads=1),
        Vocabulary(size, size, joint=True),
        tokenizers,
        {"source": "de", "target": "de"},
        Training(9, 0.0),
    )
    ctranslate2.export(folder, folder.model(), tmp_path / "out")
    alone = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "out/tokenizer.model"))
    text = "Ein Hund im CAFÉ an der STRASSE"
    assert alone.encode(text, out_type=str) == tokenizers.source.pieces(
        tokenizers.source.encode(text)
    )
    assert ModelFolder.read(tmp_path / "out").tokenizers == tokenizers
    assert "Greek" in note_on_rules(tokenizers.config)


def test_files_that_change_nothing_need_no_note() -> None:
    assert not note_on_rules(TokenizerConfig())
