"""Normalization over the features of a token (layer, RMS) or over the tokens of a batch (batch)."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

NormKind = Literal["layer", "rms", "batch"]


class BatchNorm(nn.Module):
    """Batch normalization over the tokens of a flat batch, which has no padding."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("variance", torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        """X (..., D) -> (..., D)"""
        rows = x.flatten(0, -2).float()
        mean, variance = self.get_buffer("mean"), self.get_buffer("variance")
        several = len(rows) > 1  # a single token has no variance
        training = self.training and several
        y = F.batch_norm(rows, mean, variance, self.weight, self.bias, training=training)
        return y.view(x.shape)


def make_norm(kind: NormKind, dim: int, epsilon: float | None = None) -> nn.Module:
    """A new normalization layer; epsilon None: PyTorch's default."""
    if kind == "batch":
        return BatchNorm(dim)
    if kind == "rms":
        return nn.RMSNorm(dim, eps=epsilon)
    return nn.LayerNorm(dim) if epsilon is None else nn.LayerNorm(dim, eps=epsilon)
