"""The training objective: the loss of a model's predictions for a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from regard.data.batch import Batch, ContextBatch, DistilledBatch
from regard.text.special import SPECIAL
from regard.training.config import TrainingConfig
from regard.training.losses import Loss, add_distillation, add_reinforce, token_loss


class Objective:
    """Cross-entropy of the targets, with label smoothing and R-Drop; tasks add terms.

    The `model` of its methods may be wrapped in DistributedDataParallel.
    """

    def __init__(self, config: TrainingConfig) -> None:
        self.config = config

    def start_update(self, step: int) -> None:
        """Called before the batches of an update; steps are counted from 1."""

    def __call__(self, model: nn.Module, batch: Batch) -> Loss:
        """The loss of a batch; R-Drop passes all examples through the model twice."""
        batch = batch.duplicate() if self.config.r_drop else batch
        return self.loss(self.predict(model, batch), batch)

    def predict(self, model: nn.Module, batch: Batch) -> Any:
        """The predictions of the model for a batch."""
        return model(batch)

    def loss(self, predictions: Any, batch: Batch) -> Loss:
        """The loss of the predictions."""
        if isinstance(batch, ContextBatch):
            targets = predictions.targets.masked_fill(batch.is_context, SPECIAL.pad)
            predictions = replace(predictions, targets=targets)
        loss = token_loss(predictions, self.config.label_smoothing, self.r_drop_weight)
        if isinstance(batch, DistilledBatch):
            weight = self.config.word_distillation
            loss = add_distillation(loss, predictions, batch.distributions, weight, self.passes)
        return add_reinforce(loss, predictions)

    @property
    def r_drop_weight(self) -> float | None:
        """The weight of the R-Drop term; None for a single pass."""
        return self.config.r_drop or None

    @property
    def passes(self) -> int:
        """Forward passes per example."""
        return 2 if self.config.r_drop else 1

    def state(self) -> dict[str, Tensor]:
        """Tensors to store in a checkpoint, such as the memory of segment recurrence."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Load the state of a checkpoint."""
        assert not tensors
