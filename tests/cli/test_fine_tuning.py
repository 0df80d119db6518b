"""Fine-tuning by the command alone: train, prepare other text for the model, train on it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from cli.commands import Command, regard
from cli.test_back_translation import done_well
from cli.test_pipeline import run, settings, texts
from regard.models.folder import AVERAGE, WEIGHTS, read_tensors, whole_weights
from regard.training.checkpoint import folders

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
        done_well(
            regard(
                *["prepare", "--source", texts / "others.x", "--target", texts / "others.y"],
                *["--valid-source", texts / "test.x", "--valid-target", texts / "test.y"],
                *["--tokenizer-from", run, "--out", out],
            )
        )
    return out


def test_a_model_is_trained_on(texts: Path, run: Path, others: Path, regard: Command) -> None:
    tuned = texts / "tuned"
    words = ["train", "--from", run, "--data", others, "--out", tuned, *FEW]
    done_well(regard(*words, "--set", "model.dropout=0.3"))
    old, new = (json.loads((path / "config.json").read_text())["model"] for path in (run, tuned))
    assert new == {**old, "dropout": 0.3}
    assert json.loads((tuned / "run.json").read_text())["settings"]["init_from"] == str(run)
    assert done_well(regard("translate", tuned, stdin="a b c\nd e\n")).out.count("\n") == 2
    again = done_well(regard(*words, "--set", "model.dropout=0.3"))
    assert "finished" in again.err
    elsewhere = [*words[:2], texts / "moved", *words[3:]]  # the run goes on without its origin
    assert "finished" in done_well(regard(*elsewhere, "--set", "model.dropout=0.3")).err


def test_the_mean_of_checkpoints_is_that_of_their_moving_averages(
    texts: Path, run: Path, others: Path, regard: Command
) -> None:
    tuned, mean = texts / "averaged", texts / "mean"
    done_well(regard("train", "--from", run, "--data", others, "--out", tuned, *FEW))
    done_well(regard("average", tuned, "--last", "2", "--out", mean))
    one, other = (read_tensors(path / AVERAGE)[0] for path in folders(tuned)[-2:])
    for name, tensor in read_tensors(mean / WEIGHTS)[0].items():
        torch.testing.assert_close(tensor, (one[name] + other[name]) / 2)


def test_an_adapter_is_used_merged_and_exported(
    texts: Path, run: Path, others: Path, regard: Command
) -> None:
    adapter, merged = texts / "adapter", texts / "merged"
    lora = settings("training.lora.rank=2", "training.lora.layers=all", "training.learning_rate=1")
    words = ["train", "--from", run, "--data", others, "--out", adapter, *ALWAYS, *lora]
    assert "of which" in done_well(regard(*words)).err
    assert (adapter / WEIGHTS).stat().st_size < (run / WEIGHTS).stat().st_size / 2
    done_well(regard("merge", adapter, "--out", merged))
    assert "adapter" not in json.loads((merged / "config.json").read_text())
    done_well(regard("export", adapter, "--to", "ctranslate2", "--out", texts / "exported"))
    done_well(regard("average", adapter, "--last", "1", "--out", texts / "one"))
    averaged = whole_weights(folders(adapter)[-1])
    for name, tensor in read_tensors(texts / "one" / WEIGHTS)[0].items():
        assert torch.equal(tensor, averaged[name])
    lines = (texts / "test.x").read_text()
    said = {
        name: done_well(regard("translate", texts / name, "--engine", "auto", stdin=lines)).out
        for name in ("adapter", "merged", "exported")
    }
    assert said["adapter"] == said["merged"] == said["exported"]
    assert said["adapter"] != done_well(regard("translate", run, stdin=lines)).out
    refused = regard("merge", merged, "--out", texts / "again")
    assert refused.status == 2
    assert "is no adapter" in refused.err


def test_what_does_not_fit_is_said_with_its_remedy(
    texts: Path, run: Path, others: Path, regard: Command
) -> None:
    foreign, out = texts / "foreign", texts / "refused"
    files = ["--source", texts / "others.x", "--target", texts / "others.y"]
    done_well(regard("prepare", *files, *["--tokenizer", "char", "--out", foreign]))
    for words, said in (
        (["--from", run, "--data", foreign], f"regard prepare --tokenizer-from {run}"),
        (["--from", run, "--data", others, "--set", "model.width=64"], "model.width: 32 -> 64"),
        (["--from", run, "--data", others, "--preset", "tiny"], "or the preset"),
        (["--from", texts / "nowhere", "--data", others], "There is no model folder"),
        (["--from", others, "--data", others], "is prepared data, not a model"),
    ):
        refused = regard("train", *words, "--out", out, *FEW)
        assert refused.status == 2
        assert said in " ".join(refused.err.split())
        assert "Traceback" not in refused.err
    assert not out.exists()
