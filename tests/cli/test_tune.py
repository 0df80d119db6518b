"""`regard tune`, end to end."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import regard as package
from cli.commands import Command, regard
from regard.data.store import Store
from regard.errors import ConfigError
from regard.training.metrics_log import read_metrics
from toys import TINY, small_run
from tuning.searches import WORKER, set_behaviour

__all__ = ["regard"]  # a fixture

RECIPE = """
[model]
d_model = 16
num_heads = 2
ffn_dim = 24
num_encoder_layers = 1
num_decoder_layers = 1
dropout = 0.2
[data]
batch_tokens = 300
[training]
max_steps = 10
warmup_steps = 5
learning_rate = 0.01
checkpoint_every = 5
tensorboard = false
"""
SPACE = """
"training.learning_rate" = { low = 1e-3, high = 1e-1, log = true }
"model.dropout" = [0.1, 0.3]
"""


@pytest.fixture
def command(tmp_path: Path, reversal_store: Store) -> list[str | Path]:
    """The command line of a search in `tmp_path`."""
    (tmp_path / "recipe.toml").write_text(RECIPE)
    (tmp_path / "space.toml").write_text(SPACE)
    data: list[str | Path] = ["--data", reversal_store.folder, "--device", "cpu"]
    files: list[str | Path] = [tmp_path / "recipe.toml", "--space", tmp_path / "space.toml"]
    return ["tune", *files, *data, "--out", tmp_path / "out"]


def simulate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let simulated processes train the trials."""
    monkeypatch.setattr("regard.tuning.tuner.WORKER", WORKER)


def test_search_and_reproduction(
    command: list[str | Path], tmp_path: Path, regard: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real trials, two at a time; the recipe of the best one gives exactly its value."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    picture = ["--picture", tmp_path / "plot.png"]
    outcome = regard(*command, "--trials", "2", "--parallel", "2", *picture)
    assert outcome.status == 0, outcome.err
    header, *rows = outcome.out.splitlines()
    assert header.split() == [
        *("trial", "state", "validation", "loss", "step"),
        *("training.learning_rate", "model.dropout"),
    ]
    assert [row.split()[1] for row in rows] == ["complete"] * 2
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert outcome.err.count("complete  validation loss ") == 2
    document = json.loads(regard(*command, "--trials", "2", "--format", "json").out)
    best = next(row for row in document["results"] if row["number"] == document["best"])
    assert best["value"] == min(row["value"] for row in document["results"])
    assert regard("train", tmp_path / "out" / "best.toml", "--device", "cpu").status == 0
    repeated = read_metrics(tmp_path / "out" / "best")
    assert min(row["valid_loss"] for row in repeated if "valid_loss" in row) == best["value"]
    scored = regard("translate", best["folder"], "--backend", "torch", stdin="a b\n")
    assert scored.status == 0


def test_results(
    command: list[str | Path], regard: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate(monkeypatch)
    set_behaviour(monkeypatch, {1: "fail"})
    outcome = regard(*command, "--trials", "12", "--pruner", "none")
    assert outcome.status == 0, outcome.err
    lines = outcome.out.splitlines()
    assert [line.split()[1] for line in lines[1:13]] == [*["complete"] * 11, "failed"]
    values = [float(line.split()[2]) for line in lines[1:12]]
    assert values == sorted(values)
    assert [line.split()[0] for line in lines[14:]] == [
        "setting",
        "training.learning_rate",
        "model.dropout",
    ]
    assert "trial    1  failed  training.learning_rate=" in outcome.err
    assert "No luck." in outcome.err
    assert "regard train" in outcome.err


def test_stopped_search_says_how_to_resume(
    command: list[str | Path], regard: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate(monkeypatch)
    set_behaviour(monkeypatch, {1: "hang"})
    outcome = regard(*command, "--trials", "3", "--timeout", "1s")
    assert outcome.status == 0
    assert "Unfinished: 1. They are saved" in outcome.err
    assert [line.split()[1] for line in outcome.out.splitlines()[1:]] == ["complete", "running"]


def test_no_complete_trial_is_an_error(
    command: list[str | Path], regard: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate(monkeypatch)
    set_behaviour(monkeypatch, {0: "fail"})
    outcome = regard(*command, "--trials", "1")
    assert outcome.status == 2
    assert "No trial is complete" in outcome.err


def test_killed_search_is_resumed(
    command: list[str | Path],
    tmp_path: Path,
    reversal_store: Store,
    regard: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kill -9 of the tuner, with simulated trials."""
    program = (
        "import regard.tuning.tuner as tuner, regard.cli\n"
        f"tuner.WORKER = {WORKER!r}\n"
        "regard.cli.main()"
    )
    set_behaviour(monkeypatch, {2: "hang"})
    with subprocess.Popen(
        [sys.executable, "-c", program, *map(str, command), "--trials", "4"],
        stderr=subprocess.DEVNULL,
    ) as process:
        started = tmp_path / "out" / "trials" / "0002" / "checkpoints" / "step"
        deadline = time.monotonic() + 60
        while not started.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.kill()
    simulate(monkeypatch)
    set_behaviour(monkeypatch, {})
    outcome = regard(*command, "--trials", "4", "--format", "json")
    assert outcome.status == 0, outcome.err
    results = json.loads(outcome.out)["results"]
    assert [row["state"] for row in results] == ["complete"] * 4
    starts = (tmp_path / "out" / "trials" / "0002" / "starts").read_text().splitlines()
    assert len(starts) == 2
    assert [row["step"] for row in read_metrics(tmp_path / "out" / "trials" / "0002")] == [5, 10]


def test_python(tmp_path: Path, reversal_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    simulate(monkeypatch)
    settings = small_run(tmp_path, reversal_store).training
    options: dict[str, Any] = {
        "space": {"training.learning_rate": {"low": 1e-3, "high": 1e-1, "log": True}},
        "data": reversal_store,
        "out": tmp_path / "out",
        "device": "cpu",
        "model": TINY["transformer"],
        "training.checkpoint_every": settings.checkpoint_every,
        "training": {"max_steps": 10},
        "pruner": "none",
    }
    result = package.tune(trials=2, **options)
    assert isinstance(result, package.TuningResult)
    assert [trial.state for trial in result.trials] == ["complete"] * 2
    assert result.best == result.ranking[0]
    assert result.recipe.is_file()
    assert len(package.tune(trials=3, **options).trials) == 3
    with pytest.raises(ConfigError, match=r"trials is 0, but must be at least 1"):
        package.tune(trials=0, **options)
    with pytest.raises(ConfigError, match=r"trainin does not exist"):
        package.tune(trainin={}, **options)


def test_errors(
    command: list[str | Path], tmp_path: Path, regard: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "space.toml").write_text('"model.droput" = [0.1, 0.3]\n')
    outcome = regard(*command)
    assert outcome.status == 2
    assert "model.droput does not exist; did you mean model.dropout?" in outcome.err
    assert not (tmp_path / "out").exists()
    (tmp_path / "space.toml").write_text(SPACE)
    assert "must be a duration such as 90m" in regard(*command, "--timeout", "2").err
    monkeypatch.setattr("regard.exchange.requirements.find_spec", lambda name: None)
    outcome = regard(*command)
    assert outcome.status == 2
    assert "optuna is required, but not installed" in outcome.err
    assert "regard[tune]" in outcome.err
