"""GPT-2 from HuggingFace and back: equal logits, equal text, and all reasons where it fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from exchange.languages import TEXTS, byte_bpe, own_folder, write_gpt2
from parity.weights import shake
from regard.config import build
from regard.data.batch import Batch
from regard.data.ragged import Ragged
from regard.decoding.generator import Generator
from regard.errors import ModelError
from regard.exchange.huggingface import export_folder, import_folder
from regard.models.causal import CausalConfig
from regard.models.folder import load_model
from regard.text.foreign import LibraryTokenizer
from regard.text.special import SPECIAL
from text.learned import LINES, learned
from toys import TINY

transformers = pytest.importorskip("transformers")
CPU = torch.device("cpu")

FORMS: list[dict[str, Any]] = [
    {},
    {"activation_function": "gelu", "layer_norm_epsilon": 1e-3, "n_inner": 40},
    {"activation_function": "relu", "tie_word_embeddings": False, "n_layer": 3, "n_head": 2},
    {"activation_function": "silu", "scale_attn_weights": False, "n_embd": 24},
    {"scale_attn_by_inverse_layer_idx": True, "reorder_and_upcast_attn": True},
    {"bos_token_id": 5, "vocab_size": 330},
    {"bos_token_id": 50256, "eos_token_id": 50256},
]


@torch.no_grad()
def both_logits(folder: Path, theirs: Any) -> tuple[Tensor, Tensor]:
    """Ours, with the words in their order; and theirs."""
    description, model = load_model(folder, CPU)
    tokenizer = description.tokenizers.target
    assert isinstance(tokenizer, LibraryTokenizer)
    ids = tokenizer.encode_all(TEXTS)
    text = Ragged.of(ids)
    predictions = model(Batch(text, text))
    logits = predictions.project(predictions.hidden)
    numbering = tokenizer.numbering
    rows = torch.tensor(numbering.theirs)
    assert (logits[:, rows < 0] < -500).all()  # what is ours alone is never written
    found = torch.empty(len(logits), numbering.size)
    found[:, rows[rows >= 0]] = logits[:, rows >= 0]
    expected = [theirs(torch.tensor([numbering.written(row)])).logits[0] for row in ids]
    return found, torch.cat(expected)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_logits_are_equal_there_and_back(form: dict[str, Any], tmp_path: Path) -> None:
    theirs = write_gpt2(tmp_path / "theirs", **form)
    import_folder(tmp_path / "theirs", tmp_path / "ours")
    assert_close(*both_logits(tmp_path / "ours", theirs), atol=2e-5, rtol=0)
    name = export_folder(*load_model(tmp_path / "ours", CPU), tmp_path / "again")
    again = getattr(transformers, name).from_pretrained(tmp_path / "again").eval()
    assert_close(*both_logits(tmp_path / "ours", again), atol=2e-5, rtol=0)


def test_text_is_cut_and_joined_as_theirs(tmp_path: Path) -> None:
    write_gpt2(tmp_path / "theirs")
    tokenizer = import_folder(tmp_path / "theirs", tmp_path / "ours").tokenizers.target
    assert isinstance(tokenizer, LibraryTokenizer)
    for text in TEXTS:
        assert tokenizer.numbering.written(tokenizer.encode(text)) == byte_bpe().encode(text).ids
        assert tokenizer.decode_lines(tokenizer.encode_lines(text)) == text


def test_the_older_files_of_a_tokenizer_do_as_well(tmp_path: Path) -> None:
    write_gpt2(tmp_path / "theirs")
    made = import_folder(tmp_path / "theirs", tmp_path / "one").tokenizers.target
    model = json.loads((tmp_path / "theirs" / "tokenizer.json").read_text())["model"]
    (tmp_path / "theirs" / "tokenizer.json").unlink()
    (tmp_path / "theirs" / "vocab.json").write_text(json.dumps(model["vocab"]))
    merges = [" ".join(merge) for merge in model["merges"]]
    (tmp_path / "theirs" / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]))
    again = import_folder(tmp_path / "theirs", tmp_path / "two").tokenizers.target
    assert again.encode_all(TEXTS) == made.encode_all(TEXTS)


@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize("seed", [1, 2])
def test_generate_writes_what_theirs_writes(beams: int, seed: int, tmp_path: Path) -> None:
    theirs = write_gpt2(tmp_path / "theirs", seed=seed)
    import_folder(tmp_path / "theirs", tmp_path / "ours")
    found = Generator.load(tmp_path / "ours", device="cpu").generate(
        TEXTS, max_tokens=20, beam_size=beams, length_penalty=0.6
    )
    for text, one in zip(TEXTS, found, strict=True):
        ids = torch.tensor([byte_bpe().encode(text).ids])
        settings: Any = {"max_new_tokens": 20, "do_sample": False, "num_beams": beams}
        [written] = theirs.generate(
            ids, attention_mask=torch.ones_like(ids), length_penalty=0.6, pad_token_id=0, **settings
        ).tolist()
        expected = byte_bpe().decode(written)
        assert one.prompt + one.continuations[0].text == expected


def test_a_stream_tells_what_is_generated(tmp_path: Path) -> None:
    write_gpt2(tmp_path / "theirs")
    import_folder(tmp_path / "theirs", tmp_path / "ours")
    generator = Generator.load(tmp_path / "ours", device="cpu")
    for text in (*TEXTS, ""):
        told: list[str] = []
        generator.stream(text, told.append, max_tokens=9, beam_size=1)
        [one] = generator.generate([text], max_tokens=9, beam_size=1)
        assert "".join(told) == one.continuations[0].text


@pytest.mark.parametrize("scaled", [False, True])
def test_models_of_ours_are_gpt2s_there(scaled: bool, tmp_path: Path) -> None:
    form = {"positions": "learned", "norm_order": "pre", "scale_embedding": scaled}
    tokenizers = learned(LINES)
    folder = own_folder(build(CausalConfig, TINY["causal"] | form), tokenizers)
    model = folder.model().eval()
    shake(model, 0.1)
    name = export_folder(folder, model, tmp_path / "theirs")
    theirs = getattr(transformers, name).from_pretrained(tmp_path / "theirs").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    for line in LINES[:5]:
        ids = tokenizer(f"{line}\nNeu").input_ids
        assert ids == [SPECIAL.start, *tokenizers.source.encode_lines(f"{line}\nNeu")]
        text = Ragged.of([ids])
        with torch.no_grad():
            predictions = model(Batch(text, text))
            ours = predictions.project(predictions.hidden)
            assert_close(ours, theirs(torch.tensor([ids])).logits[0], atol=2e-5, rtol=0)


def test_every_obstacle_is_named_at_once(tmp_path: Path) -> None:
    write_gpt2(tmp_path / "theirs", vocab_size=300, activation_function="tanh")
    path = tmp_path / "theirs" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "add_cross_attention": True}))
    with pytest.raises(ModelError, match="3 problems") as error:
        import_folder(tmp_path / "theirs", tmp_path / "ours")
    for what in ("add_cross_attention", "is tanh", "ids up to 315"):
        assert what in str(error.value)
