"""Convolutions over the tokens of a flat batch, and a convolutional feed-forward network.

Sentences are padded with zeros, so that convolutions do not cross their boundaries. In a decoder
convolutions are causal, and decoding keeps a window of their last `kernel - 1` inputs.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.linear import Linear
from regard.data.ragged import Lengths
from regard.layers.dropout import Dropout
from regard.layers.feedforward import ACTIVATIONS, Activation, Windows


class Convolution(nn.Module):
    """`W (x_{i-1}, x_i, x_{i+1})`, or causal: `W (x_{i-2}, x_{i-1}, x_i)`; of any odd kernel."""

    def __init__(self, in_dim: int, out_dim: int, *, causal: bool, kernel_size: int = 3) -> None:
        super().__init__()
        self.weight = Linear(kernel_size * in_dim, out_dim)
        first = 1 - kernel_size if causal else -(kernel_size // 2)
        self._offsets = range(first, first + kernel_size)

    def forward(self, x: Tensor, lengths: Lengths) -> Tensor:
        """X (N, D) -> (N, out_dim)"""
        return self.weight(torch.cat([_shift(x, lengths, offset) for offset in self._offsets], 1))

    def initial_state(self, like: Tensor) -> Tensor:
        """The window before the first step: zeros. (B, W, k - 1, D)"""
        kernel_size = len(self._offsets)
        return like.new_zeros(
            *like.shape[:2], kernel_size - 1, self.weight.in_features // kernel_size
        )

    def step(self, x: Tensor, window: Tensor) -> Tensor:
        """One new token per beam: x (B, W, D), window (B, W, k - 1, D), updated -> (B, W, out)"""
        inputs = torch.cat([window, x[:, :, None]], 2)  # (B, W, k, D)
        window.copy_(inputs[:, :, 1:])
        return self.weight(inputs.flatten(2))


def _shift(x: Tensor, lengths: Lengths, offset: int) -> Tensor:
    """For each token the token `offset` positions later, or zero outside of its sentence."""
    if offset == 0:
        return x
    position = lengths.positions + offset
    inside = (position >= 0) & (position < lengths.lengths[lengths.sentence])
    return x.roll(-offset, 0).masked_fill(~inside[:, None], 0.0)


class ConvolutionalFeedForward(nn.Module):
    """`C2 dropout(f(C1 x))`"""

    def __init__(
        self, d_model: int, ffn_dim: int, activation: Activation, dropout: float, *, causal: bool
    ) -> None:
        super().__init__()
        self.expand = Convolution(d_model, ffn_dim, causal=causal)
        self.contract = Convolution(ffn_dim, d_model, causal=causal)
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, lengths: Lengths) -> Tensor:
        """X (N, D) -> (N, D)"""
        hidden = self.dropout(self.activation(self.expand(x, lengths)))
        return self.contract(hidden, lengths)

    def initial_state(self, like: Tensor) -> Windows:
        """The windows before the first step, for B sentences and W beams; like (B, W, ...)."""
        return self.expand.initial_state(like), self.contract.initial_state(like)

    def step(self, x: Tensor, windows: Windows) -> Tensor:
        """One new token per beam: x (B, W, D) -> (B, W, D)"""
        first, second = windows
        hidden = self.dropout(self.activation(self.expand.step(x, first)))
        return self.contract.step(hidden, second)
