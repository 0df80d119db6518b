"""The position-wise network: two linear layers, the same for every token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

Activation = Literal["relu", "gelu", "silu"]
_ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "silu": F.silu,
}


class FeedForward(nn.Module):
    """`W2 dropout(f(W1 x))`"""

    def __init__(self, width: int, inner: int, activation: Activation, dropout: float) -> None:
        super().__init__()
        self.expand = nn.Linear(width, inner)
        self.contract = nn.Linear(inner, width)
        self.activation = _ACTIVATIONS[activation]
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """X (N, D) -> (N, D)"""
        return self.contract(self.dropout(self.activation(self.expand(x))))
