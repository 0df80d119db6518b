"""What the trainer knows of a task."""

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

    def row(self) -> Row:
        """The metrics as a part of a row of the metrics log."""
        return {"valid_loss": self.loss, **self.scores}

    def watched(self, name: str) -> float:
        """The metric of this name as a number that should fall."""
        return self.loss if name == "loss" else -self.scores[name]


Validator = Callable[[Model], Validation]


class TrainingTask(Protocol):
    """What the trainer knows of a task; `regard.tasks.Task` implements it."""

    def new_folder(self, config: ModelConfig, store: Store) -> ModelFolder:
        """The description of a model that will be trained on a store; others are refused."""
        ...

    def training_data(self, store: Store, config: RunConfig) -> Dataset:
        """The training part of a store."""
        ...

    def objective(self, model: Model, config: RunConfig, store: Store) -> Objective:
        """What is minimised."""
        ...

    def validator(self, store: Store, config: RunConfig) -> Validator:
        """A function that measures a model on the validation part of a store."""
        ...
