"""Exponential moving average (EMA) of the weights, which is validated and exported instead."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.models.folder import named_weights
from regard.models.tensor_files import refuse_mismatched_tensors, tensor_specs


class MovingAverage:
    """`a <- d a + (1 - d) w` after each update, initialized with the weights."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._decay = decay
        self.weights = {name: tensor.clone() for name, tensor in named_weights(model).items()}

    def update(self, model: nn.Module, step: int) -> None:
        """Update the average with the weights after a step, counted from 1."""
        torch._foreach_lerp_(  # a few kernels for all weights instead of hundreds
            list(self.weights.values()),
            list(named_weights(model).values()),
            1.0 - warmed_up_decay(step, self._decay),
        )

    def restore(self, tensors: Mapping[str, Tensor], path: Path) -> None:
        """Load saved averages, which must have the same names, shapes and types."""
        refuse_mismatched_tensors(tensor_specs(tensors), tensor_specs(self.weights), path)
        for name, tensor in self.weights.items():
            tensor.copy_(tensors[name])


def warmed_up_decay(step: int, decay: float) -> float:
    """The decay at a step: lower at first, so that initial weights have little influence."""
    return min(decay, (1 + step) / (10 + step))
