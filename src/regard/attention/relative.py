"""Relative positions: Transformer-XL's score (Dai et al., 2019, arXiv:1901.02860).

    s(k_j, q_i) = ( q_i . k_j  +  q_i . W r_{i-j}  +  u . k_j  +  v . W r_{i-j} ) / sqrt(d)

What a query finds in a key, what it expects at a distance, how loud a key is by itself, and how
much a distance counts by itself; r is the sinusoid of the distance. No place is ever numbered, so
a sentence may be longer than any that was seen, and a memory may stand before it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.positions import Layout, sinusoids_at


class RelativeScore(nn.Module):
    """The four terms, for H heads of width d; the last query stands at the last key."""

    def __init__(
        self,
        heads: int,
        width: int,
        *,
        layout: Layout = "interleaved",
        farthest: int | None = None,
    ) -> None:
        super().__init__()
        self._size = heads * width
        self._layout: Layout = layout
        self._farthest = farthest  # distances beyond count as this one
        self.distance = nn.Linear(self._size, self._size, bias=False)
        self.key_bias = nn.Parameter(torch.zeros(heads, 1, width))  # u
        self.distance_bias = nn.Parameter(torch.zeros(heads, 1, width))  # v

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Query (..., H, T, d), key (..., H, S, d) -> scores (..., H, T, S)"""
        content = (query + self.key_bias) @ key.transpose(-2, -1)
        places = self._distances(query.shape[-2], key.shape[-2], query)  # (H, T + S - 1, d)
        position = (query + self.distance_bias) @ places.transpose(-2, -1)
        return (content + shifted(position, key.shape[-2])) / query.shape[-1] ** 0.5

    def _distances(self, queries: int, keys: int, like: Tensor) -> Tensor:
        """`W r` for every distance, from the farthest key before to the farthest after."""
        steps = torch.arange(keys - 1, -queries, -1, device=like.device)
        if self._farthest is not None:
            steps = steps.clamp(-self._farthest, self._farthest)
        encoded = self.distance(sinusoids_at(steps, self._size, self._layout).to(like.dtype))
        return encoded.unflatten(-1, (like.shape[-3], -1)).transpose(0, 1)


class SegmentScore(nn.Module):
    """What a key of the query's own segment scores, and what one of another (XLNet).

        ( q_i + b ) . s_same / sqrt(d)    or    ( q_i + b ) . s_other / sqrt(d)

    Only whether both are of one segment counts, so there may be any number of segments.
    """

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(heads, 2, width))  # same, other
        self.bias = nn.Parameter(torch.zeros(heads, 1, width))

    def forward(self, query: Tensor, other: Tensor) -> Tensor:
        """Query (B, H, T, d), other (B, 1, T, S), True = of another segment -> (B, H, T, S)"""
        scores = (query + self.bias) @ self.table.transpose(-2, -1) / query.shape[-1] ** 0.5
        return torch.where(other, scores[..., 1:], scores[..., :1])


def shifted(scores: Tensor, keys: int) -> Tensor:
    """From scores by distance to scores by key: row i moves left by T - 1 - i.

    scores (..., T, T + S - 1), for distances S - 1 down to 1 - T -> (..., T, S)

    Laid end to end with one number more in each row, the rows fall into place by themselves.
    """
    *batch, rows, columns = scores.shape
    longer = nn.functional.pad(scores, (1, 0)).view(*batch, columns + 1, rows)
    return longer[..., 1:, :].reshape(*batch, rows, columns)[..., :keys]
