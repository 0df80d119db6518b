"""Fine-tuning with the command: train, prepare new data with the model's tokenizer, fine-tune."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from cli.commands import Command, regard
from cli.test_back_translation import assert_success
from cli.test_pipeline import run, settings, texts
from regard.models.folder import AVERAGE, WEIGHTS, merged_weights, read_tensors
from regard.training.checkpoint import checkpoint_folders

__all__ = ["regard", "run", "texts"]  # fixtures

ALWAYS = settings(
    "training.max_steps=6",
    "training.warmup_steps=1",
    "training.checkpoint_every=2",
    "training.ema_decay=0.9",
    "training.tensorboard=false",
)
FEW = settings("training.learning_rate=0.001") + ALWAYS


@pytest.fixture
def others(texts: Path, run: Path, regard: Command) -> Path:
    """Other text, cut as the model knows it."""
    out = texts / "others"
    if not out.exists():
        for name in ("x", "y"):
            lines = (texts / f"train.{name}").read_text().splitlines()[:40]
            (texts / f"others.{name}").write_text("".join(f"{line} {line}\n" for line in lines))
        assert_success(
            regard(
                *["prepare", "--source", texts / "others.x", "--target", texts / "others.y"],
                *["--valid-source", texts / "test.x", "--valid-target", texts / "test.y"],
                *["--tokenizer-from", run, "--out", out],
            )
        )
    return out


def test_model_is_fine_tuned(texts: Path, run: Path, others: Path, regard: Command) -> None:
    tuned = texts / "tuned"
    arguments = ["train", "--from", run, "--data", others, "--out", tuned, *FEW]
    assert_success(regard(*arguments, "--set", "model.dropout=0.3"))
    old, new = (json.loads((path / "config.json").read_text())["model"] for path in (run, tuned))
    assert new == {**old, "dropout": 0.3}
    assert json.loads((tuned / "run.json").read_text())["settings"]["init_from"] == str(run)
    assert assert_success(regard("translate", tuned, stdin="a b c\nd e\n")).out.count("\n") == 2
    again = assert_success(regard(*arguments, "--set", "model.dropout=0.3"))
    assert "finished" in again.err
    elsewhere = [
        *arguments[:2],
        texts / "moved",
        *arguments[3:],
    ]  # the run goes on without its origin
    assert "finished" in assert_success(regard(*elsewhere, "--set", "model.dropout=0.3")).err


def test_average_uses_moving_averages(
    texts: Path, run: Path, others: Path, regard: Command
) -> None:
    tuned, mean = texts / "averaged", texts / "mean"
    assert_success(regard("train", "--from", run, "--data", others, "--out", tuned, *FEW))
    assert_success(regard("average", tuned, "--last", "2", "--out", mean))
    previous, last = (read_tensors(path / AVERAGE)[0] for path in checkpoint_folders(tuned)[-2:])
    for name, tensor in read_tensors(mean / WEIGHTS)[0].items():
        torch.testing.assert_close(tensor, (previous[name] + last[name]) / 2)


def test_adapter_is_used_merged_and_exported(
    texts: Path, run: Path, others: Path, regard: Command
) -> None:
    adapter, merged = texts / "adapter", texts / "merged"
    lora = settings(
        "training.lora.rank=2", "training.lora.target_modules=all", "training.learning_rate=1"
    )
    arguments = ["train", "--from", run, "--data", others, "--out", adapter, *ALWAYS, *lora]
    assert "of them trainable" in assert_success(regard(*arguments)).err
    assert (adapter / WEIGHTS).stat().st_size < (run / WEIGHTS).stat().st_size / 2
    assert_success(regard("merge", adapter, "--out", merged))
    assert "adapter" not in json.loads((merged / "config.json").read_text())
    assert_success(regard("export", adapter, "--to", "ctranslate2", "--out", texts / "exported"))
    assert_success(regard("average", adapter, "--last", "1", "--out", texts / "one"))
    averaged = merged_weights(checkpoint_folders(adapter)[-1])
    for name, tensor in read_tensors(texts / "one" / WEIGHTS)[0].items():
        assert torch.equal(tensor, averaged[name])
    lines = (texts / "test.x").read_text()
    outputs = {
        name: assert_success(
            regard("translate", texts / name, "--backend", "auto", stdin=lines)
        ).out
        for name in ("adapter", "merged", "exported")
    }
    assert outputs["adapter"] == outputs["merged"] == outputs["exported"]
    assert outputs["adapter"] != assert_success(regard("translate", run, stdin=lines)).out
    refused = regard("merge", merged, "--out", texts / "again")
    assert refused.status == 2
    assert "is not an adapter" in refused.err


def test_user_errors(texts: Path, run: Path, others: Path, regard: Command) -> None:
    foreign, out = texts / "foreign", texts / "refused"
    files = ["--source", texts / "others.x", "--target", texts / "others.y"]
    assert_success(regard("prepare", *files, *["--tokenizer", "char", "--out", foreign]))
    for arguments, outputs in (
        (["--from", run, "--data", foreign], f"regard prepare --tokenizer-from {run}"),
        (["--from", run, "--data", others, "--set", "model.d_model=64"], "model.d_model: 32 -> 64"),
        (["--from", run, "--data", others, "--preset", "tiny"], "or the preset"),
        (["--from", texts / "nowhere", "--data", others], "There is no model folder"),
        (["--from", others, "--data", others], "is prepared data, not a model"),
    ):
        refused = regard("train", *arguments, "--out", out, *FEW)
        assert refused.status == 2
        assert outputs in " ".join(refused.err.split())
        assert "Traceback" not in refused.err
    assert not out.exists()
