"""The demo keeps its promise: 95 % exact matches after less than three minutes of training."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from cli.commands import Command, regard

__all__ = ["regard"]  # a fixture


@pytest.mark.long
@pytest.mark.parametrize("pair", ["en-fr", "zh-en"])
def test_the_demo_learns_its_grammar(pair: str, tmp_path: Path, regard: Command) -> None:
    torch.set_num_threads(2)
    try:
        done = regard(
            "demo", "--pair", pair, "--data", tmp_path / "data", "--out", tmp_path / "run"
        )
    finally:
        torch.set_num_threads(1)
    assert done.status == 0, done.err
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["exact"] >= 0.95
    assert report["train_seconds"] < 180
    assert (tmp_path / "run" / "attention.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "run" / "heldout.source").read_text().count("\n") == 1000
    again = regard("demo", "--pair", pair, "--data", tmp_path / "data", "--out", tmp_path / "run")
    assert again.status == 0, again.err
