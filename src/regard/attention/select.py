"""What becomes of the scores: weights over the keys that a query may see."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Select = Callable[[Tensor, Tensor | None], Tensor]


def soft(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax over the keys; a query that may look nowhere gives weights of zero, not NaN.

    scores (..., T, S), mask broadcast to it, True = may look -> weights (..., T, S)
    """
    if mask is None:
        return scores.softmax(-1)
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    return weights.masked_fill(~mask.any(-1, keepdim=True), 0.0)
