"""The interface between the trainer and a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from regard.data.loader import Dataset
from regard.data.store import Store
from regard.models.base import Model, ModelConfig
from regard.models.folder import ModelFolder
from regard.training.config import RunConfig
from regard.training.metrics_log import Row
from regard.training.objective import Objective


@dataclass(frozen=True)
class Validation:
    """The metrics of a validation set."""

    loss: float  # per token, without smoothing
    scores: Mapping[str, float] = field(default_factory=dict)  # by name; higher is better
    details: Mapping[str, float] = field(default_factory=dict)  # further fields of the row

    def row(self) -> Row:
        """The metrics as fields of a row of the metrics log."""
        return {"valid_loss": self.loss, **self.scores, **self.details}

    def metric_to_minimize(self, name: str) -> float:
        """The metric of this name, negated if higher is better."""
        return self.loss if name == "loss" else -self.scores[name]


Validator = Callable[[Model], Validation]


class TrainingTask(Protocol):
    """The interface of tasks for the trainer; `regard.tasks.Task` implements it."""

    def new_folder(self, config: ModelConfig, store: Store) -> ModelFolder:
        """The description of a model to train; raises an error for an incompatible store."""
        ...

    def training_data(self, store: Store, config: RunConfig) -> Dataset:
        """The training set of a store."""
        ...

    def objective(self, model: Model, config: RunConfig, store: Store) -> Objective:
        """The objective to minimize."""
        ...

    def validator(self, store: Store, config: RunConfig) -> Validator:
        """A function that validates a model on the validation set of a store."""
        ...
