"""An exponential moving average of the weights: what is validated and published instead of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.models.folder import weights_of
from regard.models.tensor_files import refuse_misfits, specs


class MovingAverage:
    """`a <- m a + (1 - m) w` after each update; it begins as the weights themselves."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._decay = decay
        self.weights = {name: tensor.clone() for name, tensor in weights_of(model).items()}

    def update(self, model: nn.Module, step: int) -> None:
        """Take in the weights after an update, counted from 1."""
        torch._foreach_lerp_(  # all weights in a few kernels, where a loop would launch hundreds
            list(self.weights.values()),
            list(weights_of(model).values()),
            1.0 - memory(step, self._decay),
        )

    def restore(self, tensors: Mapping[str, Tensor], origin: Path) -> None:
        """Go on from saved ones, which must have the same names, shapes and types."""
        refuse_misfits(specs(tensors), specs(self.weights), origin)
        for name, tensor in self.weights.items():
            tensor.copy_(tensors[name])


def memory(step: int, decay: float) -> float:
    """How much of the average stays: little at first, so that it does not drag the start along."""
    return min(decay, (1 + step) / (10 + step))
