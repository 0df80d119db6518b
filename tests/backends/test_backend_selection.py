"""Which backend is selected, and its notice."""

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
from regard.exchange import ctranslate2, ctranslate2_files
from regard.models.folder import load_model
from toys import write_model_folder

TEXTS = ["a b c", "d e f g. H i", "", " j "]


@pytest.fixture
def model(tmp_path: Path, reversal_store: Store) -> Path:
    return write_model_folder(tmp_path / "model", reversal_store)


@pytest.fixture
def exported(model: Path) -> Path:
    """The same model, exported to CTranslate2."""
    out = model.parent / "exported"
    ctranslate2.export(*load_model(model, torch.device("cpu")), out, precision="int8")
    return out


def test_auto_selects_ctranslate2_on_a_cpu(model: Path) -> None:
    auto = regard.load(model, device="cpu")
    assert auto.backend_notice == "Backend: CTranslate2, float32."
    torch_ = regard.load(model, device="cpu", backend="torch")
    assert torch_.backend_notice == "Backend: PyTorch on the CPU, float32."
    for first, second in zip(
        *(loaded.translate(TEXTS, beam_size=1) for loaded in (auto, torch_)), strict=True
    ):
        assert first.text == second.text
        assert first.score == pytest.approx(second.score, abs=1e-5)


def test_bfloat16_selects_pytorch(model: Path) -> None:
    half = regard.load(model, device="cpu", precision="bfloat16")
    assert half.backend_notice == "Backend: PyTorch on the CPU, bfloat16."
    exact = regard.load(model, device="cpu", backend="torch")
    for first, second in zip(
        *(loaded.translate(TEXTS, beam_size=1) for loaded in (half, exact)), strict=True
    ):
        assert first.score == pytest.approx(second.score, abs=0.1)


def test_notice_says_why_ctranslate2_is_not_used(
    model: Path, reversal_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensemble = regard.load(model, model, device="cpu")
    assert ensemble.backend_notice.endswith(": it does not support ensembles.")
    odd = write_model_folder(
        tmp_path / "odd", reversal_store, norm="batch", positional_encoding="relative"
    )
    notice = regard.load(odd, device="cpu").backend_notice
    assert notice.startswith("Backend: PyTorch on the CPU, float32. CTranslate2 is not used: ")
    assert "model.norm is batch" in notice
    assert "model.positional_encoding is relative" in notice
    monkeypatch.setattr(ctranslate2_files, "is_installed", lambda: False)
    notice = regard.load(model, device="cpu").backend_notice
    assert notice.endswith("it is not installed (pip install 'regard[fast]').")
    assert "\n" not in notice


def test_requested_backend_and_precision_are_used_or_refused(
    model: Path, reversal_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = regard.load(model, device="cpu", precision="int8")
    assert small.backend_notice == "Backend: CTranslate2, int8."
    odd = write_model_folder(tmp_path / "odd", reversal_store, norm="batch", key_dim=5)
    for keywords in ({"backend": "ctranslate2"}, {"precision": "int8"}):
        with pytest.raises(ConfigError, match="2 problems") as error:
            regard.load(odd, device="cpu", **keywords)
        assert "model.key_dim is 5" in str(error.value)
    with pytest.raises(ConfigError, match="int8 is only available with --backend ctranslate2"):
        regard.load(model, backend="torch", precision="int8")
    with pytest.raises(ConfigError, match="bfloat16 is only available with --backend torch"):
        regard.load(model, backend="ctranslate2", precision="bfloat16")
    with pytest.raises(ConfigError, match=r"Unknown backend 'onnx'. Use auto, torch or ctra"):
        regard.load(model, backend="onnx")
    with pytest.raises(
        ConfigError, match=r"Unknown precision 'int4'. Use float32, bfloat16 or int8"
    ):
        regard.load(model, precision="int4")
    monkeypatch.setattr(ctranslate2_files, "is_installed", lambda: False)
    with pytest.raises(ConfigError, match="it is not installed"):
        regard.load(model, backend="ctranslate2")


def test_sampling_scores_and_attention_use_pytorch(model: Path) -> None:
    auto = regard.load(model, device="cpu")
    torch_ = regard.load(model, device="cpu", backend="torch")
    sampled: Any = {"sample": True, "seed": 3, "max_extra": 1}
    assert auto.translate(TEXTS, **sampled) == torch_.translate(TEXTS, **sampled)
    pairs = ["a b", "c"], ["b a", "c"]
    assert auto.score(*pairs) == torch_.score(*pairs)
    [translation] = auto.translate(["a b"], attention=True, max_extra=1)
    maps = translation.attention
    assert maps is not None
    assert maps.cross.shape[2:] == (len(maps.target), 3)


def test_translations_without_scores_are_the_same(model: Path) -> None:
    translator = regard.load(model, device="cpu")
    scored, unscored = (
        translator.translate(TEXTS, beam_size=1, scores=flag) for flag in (True, False)
    )
    assert [t.text for t in scored] == [t.text for t in unscored]
    assert math.isnan(unscored[0].score)


def test_exported_folder_translates(model: Path, exported: Path) -> None:
    names = {path.name for path in exported.iterdir()}
    assert names == {"config.json", "tokenizer.model", "digests.json", "ctranslate2"}
    loaded = regard.load(exported, device="cpu")
    assert loaded.backend_notice == "Backend: CTranslate2, int8."
    assert loaded.translate(TEXTS) == regard.load(model, precision="int8").translate(TEXTS)
    assert regard.load(exported, backend="ctranslate2", precision="int8").folder == loaded.folder


def test_unsupported_uses_of_an_exported_folder_are_refused(
    model: Path, exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = regard.load(exported, device="cpu")
    calls: list[Callable[[], object]] = [
        lambda: loaded.score(["a"], ["b"]),
        lambda: loaded.translate(["a"], attention=True),
        lambda: loaded.translate(["a"], sample=True),
        lambda: regard.load(exported, backend="torch"),
        lambda: regard.load(exported, model),
        lambda: regard.load(model, exported),
    ]
    for call in calls:
        with pytest.raises(ModelError, match="was exported to CTranslate2"):
            call()
    with pytest.raises(ConfigError, match="was exported in int8"):
        regard.load(exported, precision="float32")
    for module in ("requirements", "ctranslate2_files"):
        monkeypatch.setattr(f"regard.exchange.{module}.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"regard\[fast\]"):
        regard.load(exported)
