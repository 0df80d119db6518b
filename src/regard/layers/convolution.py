"""Convolutions over the words of a flat batch, and a feed-forward network of two of them.

They never read across a sentence's end: what lies beyond counts as zero. In a decoder they are
causal, and a step needs the last inputs of each: a window of one less than the kernel.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.linear import Linear
from regard.data.ragged import Lengths
from regard.layers.dropout import Dropout
from regard.layers.feedforward import ACTIVATIONS, Activation, Past


class Convolution(nn.Module):
    """`W (x_{i-1}, x_i, x_{i+1})`, or causal: `W (x_{i-2}, x_{i-1}, x_i)`; of any odd kernel."""

    def __init__(self, width: int, out: int, *, causal: bool, kernel: int = 3) -> None:
        super().__init__()
        self.weight = Linear(kernel * width, out)
        first = 1 - kernel if causal else -(kernel // 2)
        self._offsets = range(first, first + kernel)

    def forward(self, x: Tensor, lengths: Lengths) -> Tensor:
        """X (N, D) -> (N, out)"""
        return self.weight(torch.cat([_moved(x, lengths, by) for by in self._offsets], 1))

    def nothing_before(self, like: Tensor) -> Tensor:
        """The past before the first step: zeros, as before a sentence. (B, W, k - 1, D)"""
        kernel = len(self._offsets)
        return like.new_zeros(*like.shape[:2], kernel - 1, self.weight.in_features // kernel)

    def step(self, x: Tensor, past: Tensor) -> Tensor:
        """One new token a beam: x (B, W, D), past (B, W, k - 1, D), moved on -> (B, W, out)"""
        inputs = torch.cat([past, x[:, :, None]], 2)  # (B, W, k, D)
        past.copy_(inputs[:, :, 1:])
        return self.weight(inputs.flatten(2))


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

    def nothing_before(self, like: Tensor) -> Past:
        """The past before the first step, for as many beams as `like` (B, W, ...) has."""
        return self.expand.nothing_before(like), self.contract.nothing_before(like)

    def step(self, x: Tensor, past: Past) -> Tensor:
        """One new token a beam: x (B, W, D) -> (B, W, D)"""
        first, second = past
        inner = self.dropout(self.activation(self.expand.step(x, first)))
        return self.contract.step(inner, second)
