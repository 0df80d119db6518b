"""HuggingFace's Marian with random weights and a tokenizer that was really learned, in a folder."""

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
def learned(seed: int) -> bytes:
    """A SentencePiece model as Marian's are: marks in front, no bytes."""
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


def pieces_of(model: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(model)
    return [processor.id_to_piece(i) for i in range(3, processor.vocab_size())]


def tables(*, separate: bool = False) -> list[dict[str, int]]:
    """The end first and padding last, as Marian does it, for both sides; or two, alike in marks."""
    own = [pieces_of(learned(0)), pieces_of(learned(1))]
    if separate:
        rows = [["</s>", "<unk>", "<pad>", *pieces] for pieces in own]
    else:
        rows = [["</s>", "<unk>", *dict.fromkeys(own[0] + own[1]), "<pad>"]]
    return [{piece: number for number, piece in enumerate(row)} for row in rows]


def write_marian(
    folder: Path, *, seed: int = 3, separate: bool = False, talkative: bool = False, **changes: Any
) -> Any:
    """The model, which also lies in the folder."""
    found = tables(separate=separate)
    torch.manual_seed(seed)
    settings = {
        "vocab_size": len(found[0]),
        "decoder_vocab_size": len(found[-1]),
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
        "pad_token_id": found[0]["<pad>"],
        "decoder_start_token_id": found[0]["<pad>"],
        "share_encoder_decoder_embeddings": not separate,
    }
    model = transformers.MarianMTModel(transformers.MarianConfig(**settings | changes)).eval()
    shake(model, 0.3 if talkative else 0.2)
    model.final_logits_bias.normal_()
    if talkative:
        let_it_talk(model)
    model.generation_config.bad_words_ids = [[model.config.pad_token_id]]
    model.generation_config.max_length = 30
    model.generation_config.num_beams = 4
    model.save_pretrained(folder)
    write_tokenizer(folder, found)
    return model


def let_it_talk(model: Any) -> None:
    """Each word calls for another one; other random models say one for ever."""
    words = model.model.decoder.embed_tokens.weight.data
    words *= 2
    model.lm_head.weight.data.copy_(words.roll(7, 0))
    model.final_logits_bias[0, model.config.eos_token_id] = 4


def write_tokenizer(folder: Path, found: list[dict[str, int]]) -> None:
    for name, table in zip(("vocab.json", "target_vocab.json"), found, strict=False):
        (folder / name).write_text(json.dumps(table))
    (folder / "source.spm").write_bytes(learned(0))
    (folder / "target.spm").write_bytes(learned(1))
    settings = {"separate_vocabs": len(found) == 2, "source_lang": "en", "target_lang": "de"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
