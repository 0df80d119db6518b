"""Folders with HuggingFace's Marian: random weights and trained tokenizers."""

from __future__ import annotations

import io
import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch

from parity.weights import shake

transformers = pytest.importorskip("transformers")

ENGLISH = "the dog cat house sleeps runs sees and to its small old green never always"
GERMAN = "der Hund die Katze Haus schläft läuft sieht und zu sein klein alt grün nie"
SENTENCES = [
    "the dog sleeps",
    "the small cat sees its old house and runs",
    "never",
    "a green 7 xylophone, always!",
    "the house. The dog. The cat?",
]


@cache
def train_sentencepiece(seed: int) -> bytes:
    """Train a SentencePiece model like Marian's: special tokens first, no byte fallback."""
    draw = random.Random(seed)
    words = (ENGLISH, GERMAN)[seed % 2].split()
    lines = [" ".join(draw.choices(words, k=draw.randint(2, 7))) for _ in range(200)]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=60,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return model.getvalue()


def read_tokens(model: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(model)
    return [processor.id_to_piece(i) for i in range(3, processor.vocab_size())]


def make_vocabularies(*, separate: bool = False) -> list[dict[str, int]]:
    """Return a joint vocabulary with EOS first and PAD last, or two separate ones."""
    sides = [read_tokens(train_sentencepiece(0)), read_tokens(train_sentencepiece(1))]
    if separate:
        rows = [["</s>", "<unk>", "<pad>", *tokens] for tokens in sides]
    else:
        rows = [["</s>", "<unk>", *dict.fromkeys(sides[0] + sides[1]), "<pad>"]]
    return [{token: number for number, token in enumerate(row)} for row in rows]


def write_marian(
    folder: Path, *, seed: int = 3, separate: bool = False, varied: bool = False, **changes: Any
) -> Any:
    """Write a Marian folder; return the model."""
    vocabularies = make_vocabularies(separate=separate)
    torch.manual_seed(seed)
    settings = {
        "vocab_size": len(vocabularies[0]),
        "decoder_vocab_size": len(vocabularies[-1]),
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 1,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48,
        "activation_function": "swish",
        "scale_embedding": True,
        "max_position_embeddings": 64,
        "pad_token_id": vocabularies[0]["<pad>"],
        "decoder_start_token_id": vocabularies[0]["<pad>"],
        "share_encoder_decoder_embeddings": not separate,
    }
    model = transformers.MarianMTModel(transformers.MarianConfig(**settings | changes)).eval()
    shake(model, 0.3 if varied else 0.2)
    model.final_logits_bias.normal_()
    if varied:
        encourage_variety(model)
    model.generation_config.bad_words_ids = [[model.config.pad_token_id]]
    model.generation_config.max_length = 30
    model.generation_config.num_beams = 4
    model.save_pretrained(folder)
    write_tokenizer(folder, vocabularies)
    return model


def encourage_variety(model: Any) -> None:
    """Make each token predict another one; other random models repeat one token."""
    embeddings = model.model.decoder.embed_tokens.weight.data
    embeddings *= 2
    model.lm_head.weight.data.copy_(embeddings.roll(7, 0))
    model.final_logits_bias[0, model.config.eos_token_id] = 4


def write_tokenizer(folder: Path, vocabularies: list[dict[str, int]]) -> None:
    for name, table in zip(("vocab.json", "target_vocab.json"), vocabularies, strict=False):
        (folder / name).write_text(json.dumps(table))
    (folder / "source.spm").write_bytes(train_sentencepiece(0))
    (folder / "target.spm").write_bytes(train_sentencepiece(1))
    settings = {"separate_vocabs": len(vocabularies) == 2, "source_lang": "en", "target_lang": "de"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
