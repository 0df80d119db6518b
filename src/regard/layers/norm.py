"""Norms: each token by itself (layer, RMS), or each feature over all tokens of a batch (batch)."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

NormKind = Literal["layer", "rms", "batch"]


class BatchNorm(nn.Module):
    """Mean 0 and variance 1 for each feature; after training, by the statistics seen there.

    A flat batch holds real tokens only, so it cannot matter how a batch would have been padded.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """X (..., D) -> (..., D)"""
        rows = x.flatten(0, -2).float()
        mean, variance = self.get_buffer("mean"), self.get_buffer("variance")
        several = len(rows) > 1  # a single token has no variance
        training = self.training and several
        found = F.batch_norm(rows, mean, variance, self.weight, self.bias, training=training)
        return found.view(x.shape)


def make_norm(kind: NormKind, width: int, epsilon: float | None = None) -> nn.Module:
    """A norm of this kind; epsilon, if it is not PyTorch's, guards against division by zero."""
    if kind == "batch":
        return BatchNorm(width)
    if kind == "rms":
        return nn.RMSNorm(width, eps=epsilon)
    return nn.LayerNorm(width) if epsilon is None else nn.LayerNorm(width, eps=epsilon)
