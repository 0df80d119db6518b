"""How good a model is on sentences that it does not train on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from regard.data.ragged import Batch
from regard.devices import Precision, autocast, is_half
from regard.layers.recall import Memory
from regard.models.base import Model, read_on
from regard.training.losses import loss_of
from regard.training.record import Row

Bleu = Callable[[Model], float]


@dataclass(frozen=True)
class Validation:
    """The figures of one validation."""

    loss: float  # per token, without smoothing
    bleu: float | None

    def row(self) -> Row:
        """The figures as a part of a row of metrics."""
        return {"valid_loss": self.loss, **({} if self.bleu is None else {"bleu": self.bleu})}

    def figure(self, name: str) -> float:
        """The watched one, as a number that should fall."""
        return self.loss if name == "loss" or self.bleu is None else -self.bleu


@torch.inference_mode()
def validation_loss(model: Model, batches: Iterable[Batch], *, precision: Precision) -> float:
    """The mean negative log-probability of a token."""
    device = model.device
    half = is_half(device, precision, model.config.width)
    total, tokens = torch.zeros((), device=device), 0
    memory: Memory | None = None
    for batch in batches:
        with autocast(device, half=half):
            predictions = read_on(model, batch.to(device), memory)
            total += loss_of(predictions).nll
        memory = predictions.memory
        tokens += batch.target_tokens
    return float(total) / tokens
