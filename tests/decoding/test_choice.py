"""Which engine translates, and what is said about it."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.data.store import Store
from regard.errors import ConfigError, ModelError
from regard.exchange import ctranslate2
from regard.models.folder import load_model
from toys import write_model_folder

TEXTS = ["a b c", "d e f g. H i", "", " j "]


@pytest.fixture
def model(tmp_path: Path, reversal_store: Store) -> Path:
    return write_model_folder(tmp_path / "model", reversal_store)


@pytest.fixture
def exported(model: Path) -> Path:
    """The same for CTranslate2 alone."""
    out = model.parent / "exported"
    ctranslate2.export(*load_model(model, torch.device("cpu")), out, precision="int8")
    return out


def test_auto_takes_ctranslate2_on_a_cpu(model: Path) -> None:
    chosen = regard.load(model, device="cpu")
    assert chosen.engine_told == "Engine: CTranslate2, float32."
    own = regard.load(model, device="cpu", backend="torch")
    assert own.engine_told == "Engine: PyTorch on the CPU, float32."
    for one, other in zip(
        *(loaded.translate(TEXTS, beam_size=1) for loaded in (chosen, own)), strict=True
    ):
        assert one.text == other.text
        assert one.score == pytest.approx(other.score, abs=1e-5)


def test_half_precision_is_pytorchs(model: Path) -> None:
    half = regard.load(model, device="cpu", precision="bfloat16")
    assert half.engine_told == "Engine: PyTorch on the CPU, bfloat16."
    exact = regard.load(model, device="cpu", backend="torch")
    for one, other in zip(
        *(loaded.translate(TEXTS, beam_size=1) for loaded in (half, exact)), strict=True
    ):
        assert one.score == pytest.approx(other.score, abs=0.1)


def test_auto_says_why_not_ctranslate2(
    model: Path, reversal_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twice = regard.load(model, model, device="cpu")
    assert twice.engine_told.endswith(": it runs one model, not several together.")
    odd = write_model_folder(tmp_path / "odd", reversal_store, norm="batch", positions="relative")
    told = regard.load(odd, device="cpu").engine_told
    assert told.startswith("Engine: PyTorch on the CPU, float32. CTranslate2 was left aside: ")
    assert "model.norm is batch" in told
    assert "model.positions is relative" in told
    monkeypatch.setattr(ctranslate2, "is_installed", lambda: False)
    told = regard.load(model, device="cpu").engine_told
    assert told.endswith("it is not installed (pip install 'regard[fast]').")
    assert "\n" not in told


def test_what_was_asked_for_is_taken_or_refused(
    model: Path, reversal_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = regard.load(model, device="cpu", precision="int8")
    assert small.engine_told == "Engine: CTranslate2, int8."
    odd = write_model_folder(tmp_path / "odd", reversal_store, norm="batch", key_width=5)
    for keywords in ({"backend": "ctranslate2"}, {"precision": "int8"}):
        with pytest.raises(ConfigError, match="2 problems") as error:
            regard.load(odd, device="cpu", **keywords)
        assert "model.key_width is 5" in str(error.value)
    with pytest.raises(ConfigError, match="int8 is only available with --backend ctranslate2"):
        regard.load(model, backend="torch", precision="int8")
    with pytest.raises(ConfigError, match="CTranslate2 is for float32 and int8 here"):
        regard.load(model, backend="ctranslate2", precision="bfloat16")
    with pytest.raises(ConfigError, match=r"There is no backend 'onnx'. Use auto, torch or ctra"):
        regard.load(model, backend="onnx")
    with pytest.raises(ConfigError, match=r"no precision 'int4'. Use float32, bfloat16 or int8"):
        regard.load(model, precision="int4")
    monkeypatch.setattr(ctranslate2, "is_installed", lambda: False)
    with pytest.raises(ConfigError, match="it is not installed"):
        regard.load(model, backend="ctranslate2")


def test_pytorch_is_there_when_it_is_needed(model: Path) -> None:
    chosen = regard.load(model, device="cpu")
    own = regard.load(model, device="cpu", backend="torch")
    sampled: Any = {"sample": True, "seed": 3, "max_extra": 1}
    assert chosen.translate(TEXTS, **sampled) == own.translate(TEXTS, **sampled)
    pairs = ["a b", "c"], ["b a", "c"]
    assert chosen.score(*pairs) == own.score(*pairs)
    [seen] = chosen.translate(["a b"], attention=True, max_extra=1)
    assert seen.attention is not None
    assert seen.attention.cross.shape[2:] == (len(seen.attention.target), 3)


def test_without_scores_the_texts_are_the_same(model: Path) -> None:
    chosen = regard.load(model, device="cpu")
    told, untold = (chosen.translate(TEXTS, beam_size=1, scores=s) for s in (True, False))
    assert [t.text for t in told] == [t.text for t in untold]
    assert math.isnan(untold[0].score)


def test_an_exported_folder_translates_by_itself(model: Path, exported: Path) -> None:
    names = {path.name for path in exported.iterdir()}
    assert names == {"config.json", "tokenizer.model", "digests.json", "ctranslate2"}
    alone = regard.load(exported, device="cpu")
    assert alone.engine_told == "Engine: CTranslate2, int8."
    assert alone.translate(TEXTS) == regard.load(model, precision="int8").translate(TEXTS)
    assert regard.load(exported, backend="ctranslate2", precision="int8").folder == alone.folder


def test_what_an_exported_folder_cannot_do_is_said(
    model: Path, exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = regard.load(exported, device="cpu")
    calls: list[Callable[[], object]] = [
        lambda: alone.score(["a"], ["b"]),
        lambda: alone.translate(["a"], attention=True),
        lambda: alone.translate(["a"], sample=True),
        lambda: regard.load(exported, backend="torch"),
        lambda: regard.load(exported, model),
        lambda: regard.load(model, exported),
    ]
    for refused in calls:
        with pytest.raises(ModelError, match="was exported to CTranslate2"):
            refused()
    with pytest.raises(ConfigError, match="was exported as int8"):
        regard.load(exported, precision="float32")
    monkeypatch.setattr("regard.exchange.requirements.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"regard\[fast\]"):
        regard.load(exported)
