"""Export to CTranslate2: equal translations, and all unsupported settings in one error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from exchange.backend_models import describe_model, run_search, to_ctranslate2, to_torch
from regard.config import build
from regard.data.shortlist import Shortlist
from regard.errors import ConfigError, ModelError
from regard.exchange import ctranslate2
from regard.models.protocol import Vocabulary
from regard.models.transformer import Transformer, TransformerConfig
from toys import TRANSFORMER_VARIANTS, sentences, small_transformer

REFUSED = {
    "narrow keys": "model.key_dim is 3",
    "batch norm": "model.norm is batch",
    "convolutions": "model.ffn_type is convolution",
    "relative": "model.positional_encoding is relative",
    "additive": "model.attention.score is additive",
    "bilinear": "model.attention.score is bilinear",
    "scaled bilinear": "model.attention.score is scaled_bilinear",
    "projected dot": "model.attention.score is projected_dot",
    "hard": "model.attention.select is hard",
    "sampled": "model.attention.select is sampled",
    "REINFORCE": "model.attention.select is sampled",
}
SUPPORTED: dict[str, dict[str, Any]] = {
    **{name: changes for name, changes in TRANSFORMER_VARIANTS.items() if name not in REFUSED},
    "post-norm with a final norm": {"final_norm": True},
    "pre-norm without one": {"norm_order": "pre", "final_norm": False},
    "RMS post-norm": {"norm": "rms"},
    "sinusoids in halves": {"sinusoid_layout": "halves"},
    "plain embeddings": {"scale_embedding": False},
    "gelu": {"activation": "gelu"},
    "silu": {"activation": "silu"},
    "gated gelu": {"ffn_type": "gated", "activation": "gelu"},
    "two tables": {"tied_embeddings": "decoder"},
    "output bias": {"output_bias": True},
    "end first": {"decoder_start_token": "eos"},
    "pad first": {"decoder_start_token": "pad"},
    "more encoder than decoder": {"num_encoder_layers": 3, "num_decoder_layers": 1},
    "rotary, RMS, gated": {
        "positional_encoding": "rotary",
        "norm": "rms",
        "norm_order": "pre",
        "ffn_type": "gated",
        "activation": "silu",
    },
}
SOURCES = sentences(20, seed=4)


def assert_same_results(model: Transformer, folder: Path) -> None:
    """Compare tokens and scores of both backends."""
    torch_results = run_search(to_torch(model), SOURCES, beam_size=1)
    ct2_results = run_search(to_ctranslate2(model, folder), SOURCES, beam_size=1)
    assert [[h.tokens for h in hypotheses] for hypotheses in ct2_results] == [
        [h.tokens for h in hypotheses] for hypotheses in torch_results
    ]
    for [expected], [actual] in zip(torch_results, ct2_results, strict=True):
        assert actual.score == pytest.approx(expected.score, abs=1e-4)
        assert actual.log_probability == pytest.approx(expected.log_probability, abs=1e-3)


@pytest.mark.parametrize("variant", SUPPORTED)
def test_supported_variants_have_equal_results(variant: str, tmp_path: Path) -> None:
    assert_same_results(small_transformer(seed=3, **SUPPORTED[variant]), tmp_path)


def test_separate_vocabularies(tmp_path: Path) -> None:
    torch.manual_seed(1)
    sizes = {"num_encoder_layers": 1, "num_decoder_layers": 1, "d_model": 16, "num_heads": 2}
    config = build(TransformerConfig, {**sizes, "ffn_dim": 24, "tied_embeddings": "decoder"})
    model = Transformer(config, Vocabulary(40, 57, joint=False)).eval()
    assert_same_results(model, tmp_path)
    assert (tmp_path / "float32" / "source_vocabulary.json").is_file()


@pytest.mark.parametrize("variant", REFUSED)
def test_unsupported_variants_are_refused(variant: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=REFUSED[variant]):
        to_ctranslate2(small_transformer(**TRANSFORMER_VARIANTS[variant]), tmp_path)
    assert not any(tmp_path.iterdir())


def test_all_export_problems_are_reported(tmp_path: Path) -> None:
    model = small_transformer(
        norm="batch", ffn_type="convolution", attention={"score": "additive", "select": "hard"}
    )
    with pytest.raises(ModelError, match="4 problems") as error:
        to_ctranslate2(model, tmp_path)
    for setting in ("norm", "ffn_type", "attention.score", "attention.select"):
        assert f"model.{setting} is " in str(error.value)


def test_int8_is_close_and_small_and_does_not_change_the_model(tmp_path: Path) -> None:
    model = small_transformer(seed=3)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    float32, int8 = to_ctranslate2(model, tmp_path), to_ctranslate2(model, tmp_path, "int8")
    assert all(torch.equal(weight, before[name]) for name, weight in model.named_parameters())
    assert (str(float32), str(int8)) == ("CTranslate2, float32", "CTranslate2, int8")
    pairs = zip(
        run_search(float32, SOURCES, beam_size=1),
        run_search(int8, SOURCES, beam_size=1),
        strict=True,
    )
    differences = [abs(first.score - second.score) for [first], [second] in pairs]
    assert 0 < sum(differences) / len(differences) < 0.1
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("int8", "float32")]
    assert sizes[0] < 0.8 * sizes[1]  # position tables stay in float32


def test_weights_out_of_float16_range_are_refused(tmp_path: Path) -> None:
    model = small_transformer()
    with torch.no_grad():
        model.get_parameter("encoder.blocks.0.feedforward.expand.weight")[0, 0] = -70_000.0
    folder = describe_model(model)
    with pytest.raises(
        ModelError, match=r"expand\.weight has values up to 7e\+04, but the maximum of float16"
    ):
        ctranslate2.write_model(folder, model, tmp_path / "out", precision="float16")
    ctranslate2.write_model(folder, model, tmp_path / "out", precision="bfloat16")


def test_config_and_vmap_are_written(tmp_path: Path) -> None:
    model = small_transformer()
    folder = describe_model(model)
    rows = [np.array([], dtype=np.int64) for _ in range(folder.tokenizers.source.vocab_size)]
    rows[4] = np.array([5])
    shortlist = Shortlist(np.array([6, 7]), rows)
    ctranslate2.write_model(folder, model, tmp_path / "model", shortlist=shortlist)
    description = json.loads((tmp_path / "model" / "config.json").read_text())
    assert description["decoder_start_token"] == "<s>"
    assert description["add_source_eos"]
    assert description["max_length"] == 1026
    always, four, five = (
        " ".join(folder.tokenizers.target.ids_to_tokens(ids)) for ids in ([6, 7], [4], [5])
    )
    written = (tmp_path / "model" / "vmap.txt").read_text(encoding="utf-8")
    assert written == f"\t{always}\n{four}\t{five}\n"


def test_missing_package_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("regard.exchange.requirements.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'regard\[fast\]'"):
        to_ctranslate2(small_transformer(), tmp_path)
