"""Import and export of GPT-2: equal logits, equal text, and all problems in one error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from exchange.language_models import TEXTS, byte_bpe, describe_model, write_gpt2
from parity.weights import shake
from regard.config import build
from regard.data.batch import Batch
from regard.data.ragged import Ragged
from regard.errors import ModelError
from regard.exchange.huggingface import export_folder, import_folder
from regard.models.causal import CausalConfig
from regard.models.folder import load_model
from regard.pipelines.generator import Generator
from regard.text.imported import HuggingFaceTokenizer
from regard.text.special import SPECIAL
from text.toy_tokenizers import LINES, train_toy_tokenizers
from toys import TINY

transformers = pytest.importorskip("transformers")
CPU = torch.device("cpu")

VARIANTS: list[dict[str, Any]] = [
    {},
    {"activation_function": "gelu", "layer_norm_epsilon": 1e-3, "n_inner": 40},
    {"activation_function": "relu", "tie_word_embeddings": False, "n_layer": 3, "n_head": 2},
    {"activation_function": "silu", "scale_attn_weights": False, "n_embd": 24},
    {"scale_attn_by_inverse_layer_idx": True, "reorder_and_upcast_attn": True},
    {"bos_token_id": 5, "vocab_size": 330},
    {"bos_token_id": 50256, "eos_token_id": 50256},
]


@torch.no_grad()
def both_logits(folder: Path, hf_model: Any) -> tuple[Tensor, Tensor]:
    """Return the logits of the imported model, by HuggingFace's ids, and HuggingFace's logits."""
    description, model = load_model(folder, CPU)
    tokenizer = description.tokenizers.target
    assert isinstance(tokenizer, HuggingFaceTokenizer)
    ids = tokenizer.encode_all(TEXTS)
    text = Ragged.of(ids)
    predictions = model(Batch(text, text))
    logits = predictions.project(predictions.hidden)
    id_mapping = tokenizer.id_mapping
    rows = torch.tensor(id_mapping.imported_ids)
    assert (logits[:, rows < 0] < -500).all()  # internal tokens are never generated
    reordered = torch.empty(len(logits), id_mapping.size)
    reordered[:, rows[rows >= 0]] = logits[:, rows >= 0]
    expected = [hf_model(torch.tensor([id_mapping.to_imported(row)])).logits[0] for row in ids]
    return reordered, torch.cat(expected)


@pytest.mark.parametrize("fields", VARIANTS, ids=str)
def test_import_and_export_keep_logits(fields: dict[str, Any], tmp_path: Path) -> None:
    hf_model = write_gpt2(tmp_path / "hf", **fields)
    import_folder(tmp_path / "hf", tmp_path / "regard")
    assert_close(*both_logits(tmp_path / "regard", hf_model), atol=2e-5, rtol=0)
    name = export_folder(*load_model(tmp_path / "regard", CPU), tmp_path / "again")
    again = getattr(transformers, name).from_pretrained(tmp_path / "again").eval()
    assert_close(*both_logits(tmp_path / "regard", again), atol=2e-5, rtol=0)


def test_tokenization_matches_huggingface(tmp_path: Path) -> None:
    write_gpt2(tmp_path / "hf")
    tokenizer = import_folder(tmp_path / "hf", tmp_path / "regard").tokenizers.target
    assert isinstance(tokenizer, HuggingFaceTokenizer)
    for text in TEXTS:
        assert (
            tokenizer.id_mapping.to_imported(tokenizer.encode(text)) == byte_bpe().encode(text).ids
        )
        assert tokenizer.decode_lines(tokenizer.encode_lines(text)) == text


def test_vocab_json_and_merges_match_tokenizer_json(tmp_path: Path) -> None:
    write_gpt2(tmp_path / "hf")
    expected = import_folder(tmp_path / "hf", tmp_path / "one").tokenizers.target
    model = json.loads((tmp_path / "hf" / "tokenizer.json").read_text())["model"]
    (tmp_path / "hf" / "tokenizer.json").unlink()
    (tmp_path / "hf" / "vocab.json").write_text(json.dumps(model["vocab"]))
    merges = [" ".join(merge) for merge in model["merges"]]
    (tmp_path / "hf" / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]))
    again = import_folder(tmp_path / "hf", tmp_path / "two").tokenizers.target
    assert again.encode_all(TEXTS) == expected.encode_all(TEXTS)


@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize("seed", [1, 2])
def test_generation_matches_huggingface(beams: int, seed: int, tmp_path: Path) -> None:
    hf_model = write_gpt2(tmp_path / "hf", seed=seed)
    import_folder(tmp_path / "hf", tmp_path / "regard")
    results = Generator.load(tmp_path / "regard", device="cpu").generate(
        TEXTS, max_tokens=20, beam_size=beams, length_penalty=0.6
    )
    for text, result in zip(TEXTS, results, strict=True):
        ids = torch.tensor([byte_bpe().encode(text).ids])
        settings: Any = {"max_new_tokens": 20, "do_sample": False, "num_beams": beams}
        [generated] = hf_model.generate(
            ids, attention_mask=torch.ones_like(ids), length_penalty=0.6, pad_token_id=0, **settings
        ).tolist()
        expected = byte_bpe().decode(generated)
        assert result.prompt + result.continuations[0].text == expected


def test_streamed_text_matches_generated_text(tmp_path: Path) -> None:
    write_gpt2(tmp_path / "hf")
    import_folder(tmp_path / "hf", tmp_path / "regard")
    generator = Generator.load(tmp_path / "regard", device="cpu")
    for text in (*TEXTS, ""):
        streamed: list[str] = []
        generator.stream(text, streamed.append, max_tokens=9, beam_size=1)
        [result] = generator.generate([text], max_tokens=9, beam_size=1)
        assert "".join(streamed) == result.continuations[0].text


@pytest.mark.parametrize("scaled", [False, True])
def test_exported_models_have_equal_logits(scaled: bool, tmp_path: Path) -> None:
    fields = {"positional_encoding": "learned", "norm_order": "pre", "scale_embedding": scaled}
    tokenizers = train_toy_tokenizers(LINES)
    folder = describe_model(build(CausalConfig, TINY["causal"] | fields), tokenizers)
    model = folder.model().eval()
    shake(model, 0.1)
    name = export_folder(folder, model, tmp_path / "hf")
    hf_model = getattr(transformers, name).from_pretrained(tmp_path / "hf").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    for line in LINES[:5]:
        ids = tokenizer(f"{line}\nNeu").input_ids
        assert ids == [SPECIAL.bos, *tokenizers.source.encode_lines(f"{line}\nNeu")]
        text = Ragged.of([ids])
        with torch.no_grad():
            predictions = model(Batch(text, text))
            logits = predictions.project(predictions.hidden)
            assert_close(logits, hf_model(torch.tensor([ids])).logits[0], atol=2e-5, rtol=0)


def test_all_import_problems_are_reported(tmp_path: Path) -> None:
    write_gpt2(tmp_path / "hf", vocab_size=300, activation_function="tanh")
    path = tmp_path / "hf" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "add_cross_attention": True}))
    with pytest.raises(ModelError, match="3 problems") as error:
        import_folder(tmp_path / "hf", tmp_path / "regard")
    for problem in ("add_cross_attention", "is tanh", "ids up to 315"):
        assert problem in str(error.value)
