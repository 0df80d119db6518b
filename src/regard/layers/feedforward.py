"""The position-wise network: two linear layers, the same for every token."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.linear import Linear
from regard.data.ragged import Lengths
from regard.layers.dropout import Dropout

FeedForwardKind = Literal["linear", "gated", "convolution"]
Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]
ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": functools.partial(F.gelu, approximate="tanh"),  # what GPT-2 computes
    "silu": F.silu,
}
Past = tuple[Tensor, ...]  # what a step needs of the steps before; here nothing


class FeedForward(nn.Module):
    """`W2 dropout(f(W1 x))`, or gated: `W2 dropout(f(W1 x) * W3 x)` (Shazeer, 2020)."""

    def __init__(
        self,
        width: int,
        inner: int,
        activation: Activation,
        dropout: float,
        *,
        gated: bool = False,
    ) -> None:
        super().__init__()
        self.expand = Linear(width, inner)
        self.gate = Linear(width, inner) if gated else None
        self.contract = Linear(inner, width)
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, lengths: Lengths | None = None) -> Tensor:
        """X (N, D) -> (N, D)"""
        if self.activation is F.relu:
            inner = self.expand.rectified(x)
        else:
            inner = self.activation(self.expand(x))
        if self.gate is not None:
            inner = inner * self.gate(x)
        return self.contract(self.dropout(inner))

    def nothing_before(self, like: Tensor) -> Past:
        """The past before the first step."""
        return ()

    def step(self, x: Tensor, past: Past) -> Tensor:
        """One new token a beam: x (B, W, D) -> (B, W, D)"""
        return self(x)
