"""What is minimised: the loss of a model's predictions for a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from regard.data.batch import Batch, DistilledBatch
from regard.training.config import TrainingConfig
from regard.training.losses import Loss, token_loss, with_choices, with_distributions


class Objective:
    """Cross-entropy of the targets, with label smoothing and R-Drop; tasks add their own terms.

    An objective is used through `model`, which may be wrapped for several processes.
    """

    def __init__(self, config: TrainingConfig) -> None:
        self.config = config

    def start_update(self, step: int) -> None:
        """Before the batches of an update, counted from 1."""

    def __call__(self, model: nn.Module, batch: Batch) -> Loss:
        """The loss of a batch; with R-Drop, all examples go through the model twice."""
        batch = batch.twice() if self.config.r_drop else batch
        return self.loss(self.predict(model, batch), batch)

    def predict(self, model: nn.Module, batch: Batch) -> Any:
        """What the model predicts."""
        return model(batch)

    def loss(self, predictions: Any, batch: Batch) -> Loss:
        """The loss of predictions."""
        loss = token_loss(predictions, self.config.label_smoothing, self.r_drop_weight)
        if isinstance(batch, DistilledBatch):
            share = self.config.word_distillation
            loss = with_distributions(loss, predictions, batch.distributions, share, self.passes)
        return with_choices(loss, predictions)

    @property
    def r_drop_weight(self) -> float | None:
        """The weight of R-Drop, if there are two passes."""
        return self.config.r_drop or None

    @property
    def passes(self) -> int:
        """How often each example goes through the model."""
        return 2 if self.config.r_drop else 1

    def state(self) -> dict[str, Tensor]:
        """What the next batch continues from, for a checkpoint; empty: nothing."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Continue from the state of a checkpoint."""
        assert not tensors
