"""HuggingFace's GPT-2, BERT, RoBERTa and XLNet with random weights, and learned tokenizers."""

from __future__ import annotations

import io
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch

from exchange.marian_models import ENGLISH
from parity.weights import shake
from regard.models.base import ModelConfig
from regard.models.folder import DataStatistics, ModelFolder
from regard.models.protocol import Vocabulary
from regard.text.tokenizer import Tokenizers

transformers = pytest.importorskip("transformers")
tokenizers_package = pytest.importorskip("tokenizers")

ROBERTA_SPECIAL_TOKENS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
TEXTS = [
    "the dog sleeps and the cat runs",
    "never",
    "Two lines\nof  text, 7 xylophones: Ünïcode 我!",
    " a small old green house",
]


def describe_model(config: ModelConfig, tokenizers: Tokenizers) -> ModelFolder:
    """Return the description of a language model."""
    size = tokenizers.source.vocab_size
    languages: dict[str, str | None] = {"source": None, "target": None}
    return ModelFolder(
        Vocabulary(size, size), tokenizers, languages, DataStatistics(64, 1.0), config
    )


def training_lines() -> list[str]:
    draw = random.Random(3)
    return [" ".join(draw.choices(ENGLISH.split(), k=draw.randint(2, 7))) for _ in range(200)]


@cache
def byte_bpe(special_tokens: tuple[str, ...] = ("<|endoftext|>",)) -> Any:
    tokenizer = tokenizers_package.Tokenizer(tokenizers_package.models.BPE())
    tokenizer.pre_tokenizer = tokenizers_package.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers_package.decoders.ByteLevel()
    alphabet = tokenizers_package.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers_package.trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=list(special_tokens),
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(training_lines(), trainer)
    return tokenizer


def write_gpt2(folder: Path, *, seed: int = 3, **changes: Any) -> Any:
    """Write a GPT-2 folder; return the model."""
    tokenizer = byte_bpe()
    torch.manual_seed(seed)
    settings = {
        "vocab_size": tokenizer.get_vocab_size(),
        "n_positions": 128,
        "n_embd": 32,
        "n_layer": 2,
        "n_head": 4,
        "bos_token_id": 0,
        "eos_token_id": 0,
    }
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**settings | changes)).eval()
    shake(model, 0.1)
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return model


@cache
def wordpiece() -> Any:
    tokenizer = tokenizers_package.Tokenizer(tokenizers_package.models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = tokenizers_package.normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = tokenizers_package.pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = tokenizers_package.decoders.WordPiece()
    special_tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = tokenizers_package.trainers.WordPieceTrainer(
        vocab_size=90, special_tokens=["[unused0]", *special_tokens], show_progress=False
    )
    tokenizer.train_from_iterator(training_lines(), trainer)
    return tokenizer


def write_bert(folder: Path, name: str = "BertForMaskedLM", **changes: Any) -> Any:
    """Write a BERT or RoBERTa folder; return the model."""
    roberta = name.startswith("Roberta")
    tokenizer = byte_bpe(ROBERTA_SPECIAL_TOKENS) if roberta else wordpiece()
    torch.manual_seed(3)
    settings = {
        "vocab_size": tokenizer.get_vocab_size(),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "max_position_embeddings": 70,
        "pad_token_id": tokenizer.token_to_id("<pad>" if roberta else "[PAD]"),
        "type_vocab_size": 1 if roberta else 2,
    }
    config = transformers.RobertaConfig if roberta else transformers.BertConfig
    model = getattr(transformers, name)(config(**settings | changes)).eval()
    shake(model, 0.1)
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return model


@cache
def sentencepiece_model() -> bytes:
    """Train a SentencePiece model with XLNet's special tokens: ids 0 to 8."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(training_lines()),
        model_writer=model,
        vocab_size=70,
        hard_vocab_limit=False,
        control_symbols="<cls>,<sep>,<pad>,<mask>,<eod>,<eop>",
        minloglevel=2,
    )
    return model.getvalue()


def write_xlnet(folder: Path, name: str = "XLNetLMHeadModel", **changes: Any) -> Any:
    """Write an XLNet folder with spiece.model; return the model."""
    torch.manual_seed(3)
    vocab_size = sentencepiece.SentencePieceProcessor(
        model_proto=sentencepiece_model()
    ).vocab_size()
    settings = {"vocab_size": vocab_size, "d_model": 24, "n_layer": 2, "n_head": 4, "d_inner": 40}
    config = transformers.XLNetConfig(**settings | {"mem_len": 8} | changes)
    model = getattr(transformers, name)(config).eval()
    shake(model, 0.1)
    model.save_pretrained(folder)
    (folder / "spiece.model").write_bytes(sentencepiece_model())
    return model
