"""Attention score functions `s(k, q)`, for all pairs of queries and keys.

| dot           | k . q                      | equal sizes                               |
| scaled dot    | k . q / sqrt(d)            | variance 1 for any d                      |
| additive      | v . tanh(W k + U q)        | a small network; sizes may differ         |
| bilinear      | k . W q, or over sqrt(d)   | not symmetric; sizes may differ           |
| projected dot | (W k) . (U q) / sqrt(d)    | as in a head of multi-head attention      |

Parametric scores are modules. With `heads`, they have separate weights for each head, and queries
and keys have a third-last axis of heads.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

Score = Callable[[Tensor, Tensor], Tensor]


def dot(query: Tensor, key: Tensor) -> Tensor:
    """`k . q`; query (..., T, d), key (..., S, d) -> scores (..., T, S)"""
    return query @ key.transpose(-2, -1)


def scaled_dot(query: Tensor, key: Tensor) -> Tensor:
    """`k . q / sqrt(d)`: variance 1 for any d, so that softmax does not saturate.

    query (..., T, d), key (..., S, d) -> scores (..., T, S)
    """
    return dot(query * query.shape[-1] ** -0.5, key)


class Additive(nn.Module):
    """`v . tanh(W k + U q)` (Bahdanau et al., 2015, arXiv:1409.0473)."""

    def __init__(
        self, query_dim: int, key_dim: int, hidden_dim: int, num_heads: int | None = None
    ) -> None:
        super().__init__()
        self.query = _matrix(num_heads, query_dim, hidden_dim)
        self.key = _matrix(num_heads, key_dim, hidden_dim)
        self.out = _matrix(num_heads, hidden_dim, 1)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Query (..., T, dq), key (..., S, dk) -> scores (..., T, S)"""
        queries, keys = query @ self.query, key @ self.key
        hidden = (queries.unsqueeze(-2) + keys.unsqueeze(-3)).tanh()  # (..., T, S, h)
        return (hidden @ self.out.unsqueeze(-3)).squeeze(-1)


class Bilinear(nn.Module):
    """`k . W q` (Luong et al., 2015); `scaled`: divided by the square root of the key's size."""

    def __init__(
        self, query_dim: int, key_dim: int, *, scaled: bool = False, num_heads: int | None = None
    ) -> None:
        super().__init__()
        self.weight = _matrix(num_heads, query_dim, key_dim)
        self._scale = key_dim**-0.5 if scaled else 1.0

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Query (..., T, dq), key (..., S, dk) -> scores (..., T, S)"""
        return dot(query @ self.weight, key) * self._scale


class ProjectedDot(nn.Module):
    """`(W k) . (U q) / sqrt(d)`: queries and keys are projected to a common size d."""

    def __init__(
        self, query_dim: int, key_dim: int, hidden_dim: int, num_heads: int | None = None
    ) -> None:
        super().__init__()
        self.query = _matrix(num_heads, query_dim, hidden_dim)
        self.key = _matrix(num_heads, key_dim, hidden_dim)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Query (..., T, dq), key (..., S, dk) -> scores (..., T, S)"""
        return scaled_dot(query @ self.query, key @ self.key)


def _matrix(num_heads: int | None, rows: int, columns: int) -> nn.Parameter:
    """A weight with Glorot initialization, for each head. ([H,] rows, columns)"""
    bound = (6.0 / (rows + columns)) ** 0.5
    shape = (rows, columns) if num_heads is None else (num_heads, rows, columns)
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
