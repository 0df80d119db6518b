"""Dropout with a faster random generator on CPUs.

On a CPU, PyTorch draws a random number for each element. Here 64 random bits are used for four
elements.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_LEVELS = 2**16  # probabilities are multiples of 1 / _LEVELS


class Dropout(nn.Module):
    """In training, zeros elements with probability `p` and scales the others by `1 / (1 - p)`."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Any shape."""
        if not self.training or self.p == 0.0:
            return x
        return x * _noise(x, self.p) if x.is_cpu else F.dropout(x, self.p)

    def extra_repr(self) -> str:
        """The probability, for `repr`."""
        return f"{self.p}"


def _noise(x: Tensor, p: float) -> Tensor:
    """The factors of dropout: 0 or `1 / (1 - p)`, with p rounded to 16 bits."""
    dropped = round(p * _LEVELS)
    draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    kept = draws.view(torch.int16)[: x.numel()] >= dropped - _LEVELS // 2
    return kept.to(x.dtype).mul_(_LEVELS / (_LEVELS - dropped)).view(x.shape)
