"""How good a model is on sentences that it does not train on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from regard.data.ragged import Batch
from regard.devices import Precision, autocast, is_half
from regard.layers.recall import Memory
from regard.models.base import Model, read_on
from regard.models.labelling import LabelModel
from regard.training.losses import loss_of
from regard.training.record import Row

Bleu = Callable[[Model], float]


@dataclass(frozen=True)
class Validation:
    """The figures of one validation."""

    loss: float  # per token, without smoothing
    bleu: float | None = None
    accuracy: float | None = None  # of labels, from 0 to 1

    def row(self) -> Row:
        """The figures as a part of a row of metrics."""
        more = {"bleu": self.bleu, "accuracy": self.accuracy}
        told = {name: value for name, value in more.items() if value is not None}
        return {"valid_loss": self.loss, **told}

    def figure(self, name: str) -> float:
        """The watched one, as a number that should fall."""
        watched = {"bleu": self.bleu, "accuracy": self.accuracy}.get(name)
        return self.loss if watched is None else -watched


@torch.inference_mode()
def validated(model: Model, batches: Iterable[Batch], *, precision: Precision) -> Validation:
    """The mean negative log-probability of a token; of labels also how many are right."""
    device = model.device
    half = is_half(device, precision, model.config.width)
    total, right, tokens = torch.zeros((), device=device), torch.zeros((), device=device), 0
    memory: Memory | None = None
    for batch in batches:
        with autocast(device, half=half):
            predictions = read_on(model, batch.to(device), memory)
            total += loss_of(predictions).nll
            if isinstance(model, LabelModel):
                right += (model.chosen(predictions) == predictions.targets).sum()
        memory = predictions.memory
        tokens += batch.target_tokens
    accuracy = float(right) / tokens if isinstance(model, LabelModel) else None
    return Validation(float(total) / tokens, accuracy=accuracy)
