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

from exchange.marians import ENGLISH
from parity.weights import shake
from regard.models.base import ModelConfig
from regard.models.folder import ModelFolder, Training
from regard.models.protocol import Vocabulary
from regard.text.tokenizer import Tokenizers

transformers = pytest.importorskip("transformers")
library = pytest.importorskip("tokenizers")

ROBERTA_MARKS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
TEXTS = [
    "the dog sleeps and the cat runs",
    "never",
    "Two lines\nof  text, 7 xylophones: Ünïcode 我!",
    " a small old green house",
]


def own_folder(config: ModelConfig, tokenizers: Tokenizers) -> ModelFolder:
    """The description of a language model of ours."""
    size = tokenizers.source.vocab_size
    languages: dict[str, str | None] = {"source": None, "target": None}
    return ModelFolder(config, Vocabulary(size, size), tokenizers, languages, Training(64, 1.0))


def lines() -> list[str]:
    draw = random.Random(3)
    return [" ".join(draw.choices(ENGLISH.split(), k=draw.randint(2, 7))) for _ in range(200)]


@cache
def byte_bpe(marks: tuple[str, ...] = ("<|endoftext|>",)) -> Any:
    made = library.Tokenizer(library.models.BPE())
    made.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = library.decoders.ByteLevel()
    alphabet = library.pre_tokenizers.ByteLevel.alphabet()
    trainer = library.trainers.BpeTrainer(
        vocab_size=320, special_tokens=list(marks), initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(lines(), trainer)
    return made


def write_gpt2(folder: Path, *, seed: int = 3, **changes: Any) -> Any:
    """The model, which also lies in the folder."""
    made = byte_bpe()
    torch.manual_seed(seed)
    settings = {
        "vocab_size": made.get_vocab_size(),
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
    made.save(str(folder / "tokenizer.json"))
    return model


@cache
def wordpiece() -> Any:
    made = library.Tokenizer(library.models.WordPiece(unk_token="[UNK]"))
    made.normalizer = library.normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
    made.decoder = library.decoders.WordPiece()
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = library.trainers.WordPieceTrainer(
        vocab_size=90, special_tokens=["[unused0]", *marks], show_progress=False
    )
    made.train_from_iterator(lines(), trainer)
    return made


def write_bert(folder: Path, name: str = "BertForMaskedLM", **changes: Any) -> Any:
    """A BERT or RoBERTa, which also lies in the folder."""
    roberta = name.startswith("Roberta")
    made = byte_bpe(ROBERTA_MARKS) if roberta else wordpiece()
    torch.manual_seed(3)
    settings = {
        "vocab_size": made.get_vocab_size(),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "max_position_embeddings": 70,
        "pad_token_id": made.token_to_id("<pad>" if roberta else "[PAD]"),
        "type_vocab_size": 1 if roberta else 2,
    }
    config = transformers.RobertaConfig if roberta else transformers.BertConfig
    model = getattr(transformers, name)(config(**settings | changes)).eval()
    shake(model, 0.1)
    model.save_pretrained(folder)
    made.save(str(folder / "tokenizer.json"))
    return model


@cache
def pieces() -> bytes:
    """A SentencePiece model with XLNet's marks: 0 to 8."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines()),
        model_writer=model,
        vocab_size=70,
        hard_vocab_limit=False,
        control_symbols="<cls>,<sep>,<pad>,<mask>,<eod>,<eop>",
        minloglevel=2,
    )
    return model.getvalue()


def write_xlnet(folder: Path, name: str = "XLNetLMHeadModel", **changes: Any) -> Any:
    """An XLNet, which also lies in the folder, with a spiece.model."""
    torch.manual_seed(3)
    words = sentencepiece.SentencePieceProcessor(model_proto=pieces()).vocab_size()
    settings = {"vocab_size": words, "d_model": 24, "n_layer": 2, "n_head": 4, "d_inner": 40}
    config = transformers.XLNetConfig(**settings | {"mem_len": 8} | changes)
    model = getattr(transformers, name)(config).eval()
    shake(model, 0.1)
    model.save_pretrained(folder)
    (folder / "spiece.model").write_bytes(pieces())
    return model
