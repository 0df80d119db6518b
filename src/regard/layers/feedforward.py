"""The position-wise feed-forward network."""

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
    "gelu_tanh": functools.partial(F.gelu, approximate="tanh"),  # GPT-2's
    "silu": F.silu,
}
Windows = tuple[Tensor, ...]  # the last inputs of convolutions in decoding; none for linear layers


class FeedForward(nn.Module):
    """`W2 dropout(f(W1 x))`, or gated: `W2 dropout(f(W1 x) * W3 x)` (Shazeer, 2020)."""

    def __init__(
        self,
        d_model: int,
        ffn_dim: int,
        activation: Activation,
        dropout: float,
        *,
        gated: bool = False,
    ) -> None:
        super().__init__()
        self.expand = Linear(d_model, ffn_dim)
        self.gate = Linear(d_model, ffn_dim) if gated else None
        self.contract = Linear(ffn_dim, d_model)
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, lengths: Lengths | None = None) -> Tensor:
        """X (N, D) -> (N, D)"""
        if self.activation is F.relu:
            hidden = self.expand.forward_relu(x)
        else:
            hidden = self.activation(self.expand(x))
        if self.gate is not None:
            hidden = hidden * self.gate(x)
        return self.contract(self.dropout(hidden))

    def initial_state(self, like: Tensor) -> Windows:
        """The state before the first step: none."""
        return ()

    def step(self, x: Tensor, windows: Windows) -> Tensor:
        """One new token per beam: x (B, W, D) -> (B, W, D)"""
        return self(x)
