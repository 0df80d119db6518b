"""Dropout that is quick on a CPU too.

PyTorch draws each number of a CPU's mask by itself. Here one draw of 64 bits decides on four.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_CHANCES = 2**16  # what 16 bits can say


class Dropout(nn.Module):
    """Zeros for a share of all numbers while training; the others grow by as much."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Tensor) -> Tensor:
        """Any shape."""
        if not self.training or self.share == 0.0:
            return x
        return x * _noise(x, self.share) if x.is_cpu else F.dropout(x, self.share)

    def extra_repr(self) -> str:
        """For whoever prints the model."""
        return f"{self.share}"


def _noise(x: Tensor, share: float) -> Tensor:
    """What to multiply with: zeros, and a little more than ones. The share is right to 16 bits."""
    dropped = round(share * _CHANCES)
    draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    kept = draws.view(torch.int16)[: x.numel()] >= dropped - _CHANCES // 2
    return kept.to(x.dtype).mul_(_CHANCES / (_CHANCES - dropped)).view(x.shape)
