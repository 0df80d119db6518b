"""The result of a hyperparameter search; this module does not import Optuna."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.config import Tree
from regard.tuning.metric import Metric

BEST = "best.toml"
State = Literal["complete", "pruned", "failed", "running"]


@dataclass(frozen=True)
class TrialResult:
    """A trial of a hyperparameter search: its settings, and the metric of its exported model."""

    number: int
    state: State
    value: float | None  # of the exported model; of a pruned trial, at its last validation
    step: int | None
    seconds: float | None  # of training
    settings: Tree  # by dotted name
    folder: Path
    reason: str | None  # why it failed


@dataclass(frozen=True)
class TuningResult:
    """The trials of a hyperparameter search."""

    folder: Path
    metric: Metric
    space: Mapping[str, Any]  # the settings that were tuned, and their ranges or values
    trials: list[TrialResult]
    importances: dict[str, float]  # of settings, largest first; empty for few trials

    @property
    def best(self) -> TrialResult | None:
        """The complete trial with the best value."""
        return next(iter(self.ranking), None)

    @property
    def ranking(self) -> list[TrialResult]:
        """The complete trials, best first."""
        return rank_trials(self.trials, self.metric)

    @property
    def recipe(self) -> Path:
        """The recipe of the best trial."""
        return self.folder / BEST


def rank_trials(trials: list[TrialResult], metric: Metric) -> list[TrialResult]:
    """The complete trials, best first; of equal ones, the first."""
    sign = -1 if metric.maximized else 1
    complete = [trial for trial in trials if trial.state == "complete"]
    return sorted(complete, key=lambda trial: sign * (trial.value or 0))
