"""How well a key answers a query: `s(k, q)` for all pairs at once."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

Score = Callable[[Tensor, Tensor], Tensor]


def scaled_dot(query: Tensor, key: Tensor) -> Tensor:
    """`k . q / sqrt(d)`: the variance stays 1 whatever d is, so that softmax does not saturate.

    query (..., T, d), key (..., S, d) -> scores (..., T, S)
    """
    return query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
