"""Hyperparameter searches for the tests, whose trials are simulated."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from regard.config import build
from regard.data.store import Store
from regard.training.config import RunConfig
from regard.tuning.config import TuneConfig
from regard.tuning.result import TrialResult, TuningResult
from regard.tuning.space import read_space
from regard.tuning.tuner import Tuner
from toys import small_run

WORKER = (sys.executable, "-S", str(Path(__file__).with_name("simulated_worker.py")))
SPACE: dict[str, Any] = {
    "training.learning_rate": {"low": 1e-4, "high": 1.0, "log": True},
    "model.num_heads": [1, 2],
}


def make_tuner(
    out: Path, store: Store, *, space: Mapping[str, Any] = SPACE, **options: Any
) -> Tuner:
    """A tuner of runs of 20 updates with a validation after every 5."""
    settings = {name: options.pop(name) for name in [*options] if name in ("max_steps", "patience")}
    base: RunConfig = small_run(out, store, **settings)
    config = build(TuneConfig, {"trials": 4, "pruner": "none", **options})
    return Tuner(base, read_space(space, base), config, device="cpu", worker=WORKER)


def tune(out: Path, store: Store, **options: Any) -> TuningResult:
    """The result of a search."""
    return make_tuner(out, store, **options).run()


def set_behaviour(monkeypatch: pytest.MonkeyPatch, behaviour: Mapping[int, str]) -> None:
    """What trials do differently, by their numbers."""
    monkeypatch.setenv("BEHAVIOUR", json.dumps(behaviour))


def starts(trial: TrialResult) -> list[list[str]]:
    """Device, threads and time of each start of a trial."""
    return [line.split(" ") for line in (trial.folder / "starts").read_text().splitlines()]


class Interruption:
    """A listener that raises an exception when the first trial has ended."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def on_trial_end(self, trial: TrialResult, is_best: bool) -> None:
        raise self._error

    def on_progress(self, completed: int, total: int, steps: Mapping[int, str]) -> None:
        pass
