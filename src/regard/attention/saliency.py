"""Bottom-up attention, without queries: max pooling and gating."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def max_pooling(values: Tensor, mask: Tensor | None = None) -> Tensor:
    """The maximum of each feature; zeros where all inputs are masked.

    values (..., S, e), mask (..., S), True = visible -> (..., e)
    """
    if mask is None:
        return values.amax(-2)
    any_visible = mask.any(-1, keepdim=True)
    maxima = values.masked_fill(~mask.unsqueeze(-1), -torch.inf).amax(-2)
    return torch.where(any_visible, maxima, 0.0)


class Gate(nn.Module):
    """Self-gating: `sigmoid(W x + b) * x`."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Linear(dim, dim)

    def forward(self, values: Tensor) -> Tensor:
        """Values (..., e) -> (..., e)"""
        return self.weight(values).sigmoid() * values
