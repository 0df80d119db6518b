"""`regard demo` reaches 95 % exact matches in less than three minutes of training."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
import torch

from cli.commands import Command, regard
from regard.cli.demo import SETTINGS
from regard.data import demo

__all__ = ["regard"]  # a fixture


@pytest.mark.long
@pytest.mark.parametrize("pair", ["en-fr", "zh-en"])
def test_demo_reaches_95_percent_exact_matches(pair: str, tmp_path: Path, regard: Command) -> None:
    torch.set_num_threads(2)
    try:
        result = regard(
            "demo", "--pair", pair, "--data", tmp_path / "data", "--out", tmp_path / "run"
        )
    finally:
        torch.set_num_threads(1)
    assert result.status == 0, result.err
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["exact"] >= 0.95
    assert report["train_seconds"] < 180
    assert (tmp_path / "run" / "attention.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "run" / "heldout.source").read_text().count("\n") == 1000
    again = regard("demo", "--pair", pair, "--data", tmp_path / "data", "--out", tmp_path / "run")
    assert again.status == 0, again.err


def test_demo_does_not_overwrite_foreign_files(
    tmp_path: Path, regard: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = partial(demo.demo_corpus, train=300, valid=20, heldout=20)
    monkeypatch.setattr(demo, "demo_corpus", small)
    monkeypatch.setitem(SETTINGS, "training", {**SETTINGS["training"], "max_steps": 2})
    model = {"d_model": 8, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1}
    monkeypatch.setitem(SETTINGS, "model", {**SETTINGS["model"], **model})
    arguments = ["demo", "--data", tmp_path / "data", "--out", tmp_path / "run"]
    assert regard(*arguments).status == 0
    prepared = tmp_path / "data" / "prepared"
    before = prepared.stat().st_ino
    assert regard(*arguments).status == 0
    assert prepared.stat().st_ino == before  # it goes on with what it has made
    (tmp_path / "data" / "text" / "train.en").write_text("mine\n")
    refused = regard(*arguments)
    assert refused.status == 2
    assert "train.en exists with other contents" in refused.err
    assert (tmp_path / "data" / "text" / "train.en").read_text() == "mine\n"
    (tmp_path / "data" / "text" / "train.en").unlink()
    refused = regard(*arguments)
    assert refused.status == 2
    assert f"{prepared} exists" in refused.err
    assert prepared.stat().st_ino == before
    assert regard(*arguments, "--overwrite").status == 0
    assert prepared.stat().st_ino != before
