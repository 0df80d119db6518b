"""What CTranslate2 can express it computes as we do, and what it cannot is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from exchange.engines import described, found, in_ctranslate2, in_torch
from regard.config import build
from regard.data.shortlist import Shortlist
from regard.errors import ConfigError, ModelError
from regard.exchange import ctranslate2
from regard.models.protocol import Vocabulary
from regard.models.transformer import Transformer, TransformerConfig
from toys import FORMS, sentences, small_model

REFUSED = {
    "narrow keys": "model.key_width is 3",
    "batch norm": "model.norm is batch",
    "convolutions": "model.feedforward is convolution",
    "relative": "model.positions is relative",
    "additive": "model.attention.score is additive",
    "bilinear": "model.attention.score is bilinear",
    "scaled bilinear": "model.attention.score is scaled_bilinear",
    "projected dot": "model.attention.score is projected_dot",
    "hard": "model.attention.select is hard",
    "sampled": "model.attention.select is sampled",
    "REINFORCE": "model.attention.select is sampled",
}
EXPRESSED: dict[str, dict[str, Any]] = {
    **{name: changes for name, changes in FORMS.items() if name not in REFUSED},
    "post-norm with a final norm": {"final_norm": True},
    "pre-norm without one": {"norm_order": "pre", "final_norm": False},
    "RMS post-norm": {"norm": "rms"},
    "sinusoids in halves": {"sinusoid_layout": "halves"},
    "plain embeddings": {"scale_embedding": False},
    "gelu": {"activation": "gelu"},
    "silu": {"activation": "silu"},
    "gated gelu": {"feedforward": "gated", "activation": "gelu"},
    "two tables": {"tied_embeddings": "decoder"},
    "output bias": {"output_bias": True},
    "end first": {"start_token": "end"},
    "pad first": {"start_token": "pad"},
    "more encoder than decoder": {"encoder_layers": 3, "decoder_layers": 1},
    "rotary, RMS, gated": {
        "positions": "rotary",
        "norm": "rms",
        "norm_order": "pre",
        "feedforward": "gated",
        "activation": "silu",
    },
}
SOURCES = sentences(20, seed=4)


def same(model: Transformer, place: Path) -> None:
    """Both engines write the same tokens and give them the same scores."""
    ours = found(in_torch(model), SOURCES, beam_size=1)
    theirs = found(in_ctranslate2(model, place), SOURCES, beam_size=1)
    assert [[h.tokens for h in one] for one in theirs] == [[h.tokens for h in one] for one in ours]
    for [own], [other] in zip(ours, theirs, strict=True):
        assert other.score == pytest.approx(own.score, abs=1e-4)
        assert other.log_probability == pytest.approx(own.log_probability, abs=1e-3)


@pytest.mark.parametrize("form", EXPRESSED)
def test_a_model_writes_the_same(form: str, tmp_path: Path) -> None:
    same(small_model(seed=3, **EXPRESSED[form]), tmp_path)


def test_each_side_may_have_its_vocabulary(tmp_path: Path) -> None:
    torch.manual_seed(1)
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "width": 16, "heads": 2}
    config = build(
        TransformerConfig, {**sizes, "feedforward_width": 24, "tied_embeddings": "decoder"}
    )
    model = Transformer(config, Vocabulary(40, 57, joint=False)).eval()
    same(model, tmp_path)
    assert (tmp_path / "float32" / "source_vocabulary.json").is_file()


@pytest.mark.parametrize("form", REFUSED)
def test_what_it_cannot_express_is_named(form: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=REFUSED[form]):
        in_ctranslate2(small_model(**FORMS[form]), tmp_path)
    assert not any(tmp_path.iterdir())


def test_all_obstacles_are_named_at_once(tmp_path: Path) -> None:
    model = small_model(
        norm="batch", feedforward="convolution", attention={"score": "additive", "select": "hard"}
    )
    with pytest.raises(ModelError, match="4 problems") as error:
        in_ctranslate2(model, tmp_path)
    for what in ("norm", "feedforward", "attention.score", "attention.select"):
        assert f"model.{what} is " in str(error.value)


def test_int8_is_near_and_small_and_leaves_the_model_as_it_was(tmp_path: Path) -> None:
    model = small_model(seed=3)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    plain, small = in_ctranslate2(model, tmp_path), in_ctranslate2(model, tmp_path, "int8")
    assert all(torch.equal(weight, before[name]) for name, weight in model.named_parameters())
    assert (str(plain), str(small)) == ("CTranslate2, float32", "CTranslate2, int8")
    every = zip(found(plain, SOURCES, beam_size=1), found(small, SOURCES, beam_size=1), strict=True)
    apart = [abs(one.score - other.score) for [one], [other] in every]
    assert 0 < sum(apart) / len(apart) < 0.1
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("int8", "float32")]
    assert sizes[0] < 0.8 * sizes[1]  # the positions of so small a model stay in float32


def test_weights_that_float16_cannot_hold_are_refused(tmp_path: Path) -> None:
    model = small_model()
    with torch.no_grad():
        model.get_parameter("encoder.blocks.0.feedforward.expand.weight")[0, 0] = -70_000.0
    folder = described(model)
    with pytest.raises(ModelError, match=r"expand\.weight has numbers up to 7e\+04, and float16"):
        ctranslate2.write_model(folder, model, tmp_path / "out", precision="float16")
    ctranslate2.write_model(folder, model, tmp_path / "out", precision="bfloat16")


def test_an_exported_folder_has_both_descriptions(tmp_path: Path) -> None:
    model = small_model()
    folder = described(model)
    rows = [np.array([], dtype=np.int64) for _ in range(folder.tokenizers.source.vocab_size)]
    rows[4] = np.array([5])
    listed = Shortlist(np.array([6, 7]), rows)
    ctranslate2.write_model(folder, model, tmp_path / "model", shortlist=listed)
    description = json.loads((tmp_path / "model" / "config.json").read_text())
    assert description["decoder_start_token"] == "<s>"
    assert description["add_source_eos"]
    assert description["max_length"] == 1026
    always, four, five = (
        " ".join(folder.tokenizers.target.pieces(ids)) for ids in ([6, 7], [4], [5])
    )
    written = (tmp_path / "model" / "vmap.txt").read_text(encoding="utf-8")
    assert written == f"\t{always}\n{four}\t{five}\n"


def test_its_absence_gets_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("regard.exchange.requirements.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'regard\[fast\]'"):
        in_ctranslate2(small_model(), tmp_path)
