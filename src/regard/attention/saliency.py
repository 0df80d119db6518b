"""Bottom-up attention: no query asks; what stands out wins, or a gate lets it through."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def max_pooling(values: Tensor, mask: Tensor | None = None) -> Tensor:
    """The strongest input in each dimension; zeros where no input may be seen.

    values (..., S, e), mask (..., S), True = may look -> (..., e)
    """
    if mask is None:
        return values.amax(-2)
    seen = mask.any(-1, keepdim=True)
    strongest = values.masked_fill(~mask.unsqueeze(-1), -torch.inf).amax(-2)
    return torch.where(seen, strongest, 0.0)


class Gate(nn.Module):
    """`sigmoid(W x + b) * x`: every input says by itself how much of it passes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Linear(width, width)

    def forward(self, values: Tensor) -> Tensor:
        """Values (..., e) -> (..., e)"""
        return self.weight(values).sigmoid() * values
