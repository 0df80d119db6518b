"""Marian from HuggingFace and back: the same logits, the same text, and reasons where it cannot be."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.testing import assert_close
from typer.testing import CliRunner

from exchange.marians import SENTENCES, let_it_talk, write_marian
from parity.weights import padded
from regard.cli import app
from regard.data.loader import with_ends
from regard.data.ragged import Batch
from regard.data.store import Store
from regard.decoding.translator import Translator
from regard.errors import ModelError
from regard.exchange.huggingface import export_folder, import_folder
from regard.models.folder import load_model
from regard.text.foreign import ForeignTokenizer
from regard.text.special import SPECIAL
from toys import write_model_folder

transformers = pytest.importorskip("transformers")
CPU = torch.device("cpu")

FORMS: list[dict[str, Any]] = [
    {},
    {"activation_function": "relu", "d_model": 24, "encoder_attention_heads": 2,
     "decoder_attention_heads": 2, "scale_embedding": False},
    {"activation_function": "gelu", "tie_word_embeddings": False},
    {"share_encoder_decoder_embeddings": False, "encoder_layers": 1, "decoder_layers": 3},
    {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False},
    {"separate": True},
    {"separate": True, "tie_word_embeddings": False},
    {"decoder_start_token_id": 0},
    {"decoder_start_token_id": 5},
]  # fmt: skip


def their_tokenizer(folder: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it would like sacremoses, which it does not use
        return transformers.MarianTokenizer.from_pretrained(folder)


@torch.no_grad()
def their_logits(model: Any, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> Tensor:
    """Of the real places. (N, V)"""
    ids, real = padded([torch.tensor(source) for source in sources])
    start = model.config.decoder_start_token_id
    read, written = padded([torch.tensor([start, *target[:-1]]) for target in targets])
    logits: Tensor = model(input_ids=ids, attention_mask=real.long(), decoder_input_ids=read).logits
    return logits[written]


def both_logits(folder: Path, theirs: Any, their_folder: Path) -> tuple[Tensor, Tensor]:
    """Ours, with the words in their order; and theirs."""
    description, model = load_model(folder, CPU)
    source, target = description.tokenizers.source, description.tokenizers.target
    tokenizer = their_tokenizer(their_folder)
    sources, targets = tokenizer(SENTENCES).input_ids, tokenizer(text_target=SENTENCES[::-1])
    ours = [
        side.encode_all(texts) for side, texts in ((source, SENTENCES), (target, SENTENCES[::-1]))
    ]
    predictions = model(Batch(with_ends(ours[0]), with_ends(ours[1])))
    logits = predictions.project(predictions.hidden)
    if isinstance(target, ForeignTokenizer):
        rows = torch.tensor(target.numbering.theirs)
        logits = torch.empty(len(logits), target.numbering.size).index_copy(
            1, rows[rows >= 0], logits[:, rows >= 0]
        )
    return logits, their_logits(theirs, sources, targets.input_ids)


def they_write(theirs: Any, tokenizer: Any, **settings: Any) -> list[str]:
    """One by one, so that padding cannot matter."""
    found = []
    for text in SENTENCES:
        ids = theirs.generate(**tokenizer(text, return_tensors="pt"), **settings)
        found += tokenizer.batch_decode(ids, skip_special_tokens=True)
    return found


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_logits_are_equal_there_and_back(form: dict[str, Any], tmp_path: Path) -> None:
    theirs = write_marian(tmp_path / "theirs", **form)
    import_folder(tmp_path / "theirs", tmp_path / "ours")
    assert_close(*both_logits(tmp_path / "ours", theirs, tmp_path / "theirs"), atol=2e-5, rtol=0)

    name = export_folder(*load_model(tmp_path / "ours", CPU), tmp_path / "again")
    again = getattr(transformers, name).from_pretrained(tmp_path / "again").eval()
    assert_close(*both_logits(tmp_path / "ours", again, tmp_path / "again"), atol=2e-5, rtol=0)


@pytest.mark.parametrize("seed", [0, 1, 6, 7])
@pytest.mark.parametrize("beams", [1, 4])
def test_translate_writes_what_generate_writes(beams: int, seed: int, tmp_path: Path) -> None:
    theirs = write_marian(
        tmp_path / "theirs",
        seed=seed,
        talkative=True,
        share_encoder_decoder_embeddings=False,
        tie_word_embeddings=False,
    )
    import_folder(tmp_path / "theirs", tmp_path / "ours")
    tokenizer = their_tokenizer(tmp_path / "theirs")
    expected = they_write(theirs, tokenizer, num_beams=beams, length_penalty=0.6)
    assert len(set(expected)) > 1
    command = ["translate", str(tmp_path / "ours"), "--engine", "torch", "--max-ratio", "0"]
    options = ["--max-extra", "29", "--beam-size", str(beams), "--length-penalty", "0.6"]
    done = CliRunner().invoke(app, [*command, *options], input="".join(t + "\n" for t in SENTENCES))
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == expected
