"""A feed-forward network that also sees its neighbours: two convolutions of width 3.

It never reads across a sentence's end: what lies beyond counts as zero. In a decoder it is causal,
and a step needs the last two inputs of each convolution.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.linear import Linear
from regard.data.ragged import Lengths
from regard.layers.dropout import Dropout
from regard.layers.feedforward import ACTIVATIONS, Activation, Past


class Convolution(nn.Module):
    """`W (x_{i-1}, x_i, x_{i+1})`, or causal: `W (x_{i-2}, x_{i-1}, x_i)`."""

    def __init__(self, width: int, out: int, *, causal: bool) -> None:
        super().__init__()
        self.weight = Linear(3 * width, out)
        self._offsets = (-2, -1, 0) if causal else (-1, 0, 1)

    def forward(self, x: Tensor, lengths: Lengths) -> Tensor:
        """X (N, D) -> (N, out)"""
        return self.weight(torch.cat([_moved(x, lengths, by) for by in self._offsets], 1))

    def step(self, x: Tensor, past: Tensor | None) -> tuple[Tensor, Tensor]:
        """One new token a row: x (B, D), its past (B, 2, D) -> (B, out) and the next past."""
        if past is None:
            past = x.new_zeros(len(x), 2, x.shape[1])
        inputs = torch.cat([past, x[:, None]], 1)  # (B, 3, D)
        return self.weight(inputs.flatten(1)), inputs[:, 1:]


def _moved(x: Tensor, lengths: Lengths, by: int) -> Tensor:
    """For each token its neighbour `by` places on, or zero if that is not of its sentence."""
    if by == 0:
        return x
    place = lengths.positions + by
    inside = (place >= 0) & (place < lengths.lengths[lengths.sentence])
    return x.roll(-by, 0).masked_fill(~inside[:, None], 0.0)


class ConvolutionalFeedForward(nn.Module):
    """`C2 dropout(f(C1 x))`"""

    def __init__(
        self, width: int, inner: int, activation: Activation, dropout: float, *, causal: bool
    ) -> None:
        super().__init__()
        self.expand = Convolution(width, inner, causal=causal)
        self.contract = Convolution(inner, width, causal=causal)
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, lengths: Lengths) -> Tensor:
        """X (N, D) -> (N, D)"""
        inner = self.dropout(self.activation(self.expand(x, lengths)))
        return self.contract(inner, lengths)

    def step(self, x: Tensor, past: Past) -> tuple[Tensor, Past]:
        """One new token a row: x (B, D) -> (B, D)"""
        first, second = past or (None, None)
        inner, first = self.expand.step(x, first)
        y, second = self.contract.step(self.dropout(self.activation(inner)), second)
        return y, (first, second)
