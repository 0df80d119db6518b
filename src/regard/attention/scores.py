"""How well a key answers a query: `s(k, q)` for all pairs at once.

| dot           | k . q                      | equal sizes                               |
| scaled dot    | k . q / sqrt(d)            | its variance stays 1, whatever d is       |
| additive      | v . tanh(W k + U q)        | a small network; sizes may differ         |
| bilinear      | k . W q, and over sqrt(d)  | not symmetric; sizes may differ           |
| projected dot | (W k) . (U q) / sqrt(d)    | what multi-head attention does in a head  |

Those with weights are modules; given `heads`, they have weights of their own for each head, and
queries and keys have an axis for the heads before the last two.
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
    """`k . q / sqrt(d)`: the variance stays 1 whatever d is, so that softmax does not saturate.

    query (..., T, d), key (..., S, d) -> scores (..., T, S)
    """
    return dot(query * query.shape[-1] ** -0.5, key)


class Additive(nn.Module):
    """`v . tanh(W k + U q)` (Bahdanau et al., 2015, arXiv:1409.0473)."""

    def __init__(
        self, query_width: int, key_width: int, hidden: int, heads: int | None = None
    ) -> None:
        super().__init__()
        self.query = _matrix(heads, query_width, hidden)
        self.key = _matrix(heads, key_width, hidden)
        self.out = _matrix(heads, hidden, 1)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Query (..., T, dq), key (..., S, dk) -> scores (..., T, S)"""
        queries, keys = query @ self.query, key @ self.key
        hidden = (queries.unsqueeze(-2) + keys.unsqueeze(-3)).tanh()  # (..., T, S, h)
        return (hidden @ self.out.unsqueeze(-3)).squeeze(-1)


class Bilinear(nn.Module):
    """`k . W q`, divided by the root of the key's size if `scaled` (Luong et al., 2015)."""

    def __init__(
        self, query_width: int, key_width: int, *, scaled: bool = False, heads: int | None = None
    ) -> None:
        super().__init__()
        self.weight = _matrix(heads, query_width, key_width)
        self._scale = key_width**-0.5 if scaled else 1.0

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Query (..., T, dq), key (..., S, dk) -> scores (..., T, S)"""
        return dot(query @ self.weight, key) * self._scale


class ProjectedDot(nn.Module):
    """`(W k) . (U q) / sqrt(d)`: both are brought to one size d, and compared there."""

    def __init__(
        self, query_width: int, key_width: int, hidden: int, heads: int | None = None
    ) -> None:
        super().__init__()
        self.query = _matrix(heads, query_width, hidden)
        self.key = _matrix(heads, key_width, hidden)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Query (..., T, dq), key (..., S, dk) -> scores (..., T, S)"""
        return scaled_dot(query @ self.query, key @ self.key)


def _matrix(heads: int | None, rows: int, columns: int) -> nn.Parameter:
    """Weights that begin after Glorot, for each head if there are several. ([H,] rows, columns)"""
    bound = (6.0 / (rows + columns)) ** 0.5
    shape = (rows, columns) if heads is None else (heads, rows, columns)
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
