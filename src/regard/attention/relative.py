"""Relative positions: Transformer-XL's score (Dai et al., 2019, arXiv:1901.02860).

    s(k_j, q_i) = ( q_i . k_j  +  q_i . W r_{i-j}  +  u . k_j  +  v . W r_{i-j} ) / sqrt(d)

The terms are content-based addressing, a content-dependent positional bias, a global content bias
and a global positional bias; r is the sinusoidal encoding of the distance. There are no absolute
positions, so that texts may be longer than in training and follow a memory.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.positions import Layout, sinusoids_at


class RelativeScore(nn.Module):
    """The four terms for H heads of size d; the last query is at the position of the last key."""

    def __init__(
        self,
        num_heads: int,
        head_dim: int,
        *,
        layout: Layout = "interleaved",
        max_distance: int | None = None,
    ) -> None:
        super().__init__()
        self._size = num_heads * head_dim
        self._layout: Layout = layout
        self._max_distance = max_distance  # larger distances are clipped to it
        self.distance = nn.Linear(self._size, self._size, bias=False)
        self.key_bias = nn.Parameter(torch.zeros(num_heads, 1, head_dim))  # u
        self.distance_bias = nn.Parameter(torch.zeros(num_heads, 1, head_dim))  # v

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Query (..., H, T, d), key (..., H, S, d) -> scores (..., H, T, S)"""
        content = (query + self.key_bias) @ key.transpose(-2, -1)
        encoded = self._encode_distances(query.shape[-2], key.shape[-2], query)  # (H, T+S-1, d)
        position = (query + self.distance_bias) @ encoded.transpose(-2, -1)
        return (content + relative_shift(position, key.shape[-2])) / query.shape[-1] ** 0.5

    def _encode_distances(self, queries: int, keys: int, like: Tensor) -> Tensor:
        """`W r` of all distances, from `keys - 1` down to `1 - queries`."""
        distances = torch.arange(keys - 1, -queries, -1, device=like.device)
        if self._max_distance is not None:
            distances = distances.clamp(-self._max_distance, self._max_distance)
        encoded = self.distance(sinusoids_at(distances, self._size, self._layout).to(like.dtype))
        return encoded.unflatten(-1, (like.shape[-3], -1)).transpose(0, 1)


class SegmentScore(nn.Module):
    """Relative segment encoding (XLNet): a score for same-segment and for other-segment keys.

        ( q_i + b ) . s_same / sqrt(d)    or    ( q_i + b ) . s_other / sqrt(d)

    It depends only on whether query and key share a segment, so that there is no limit on segments.
    """

    def __init__(self, num_heads: int, head_dim: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(num_heads, 2, head_dim))  # same, other
        self.bias = nn.Parameter(torch.zeros(num_heads, 1, head_dim))

    def forward(self, query: Tensor, other: Tensor) -> Tensor:
        """Query (B, H, T, d), other (B, 1, T, S), True = another segment -> (B, H, T, S)"""
        scores = (query + self.bias) @ self.table.transpose(-2, -1) / query.shape[-1] ** 0.5
        return torch.where(other, scores[..., 1:], scores[..., :1])


def relative_shift(scores: Tensor, keys: int) -> Tensor:
    """Scores by distance as scores by key: row i is shifted left by T - 1 - i.

    scores (..., T, T + S - 1), for distances S - 1 down to 1 - T -> (..., T, S)

    Transformer-XL's trick: pad each row by one number and reshape.
    """
    *batch, rows, columns = scores.shape
    longer = nn.functional.pad(scores, (1, 0)).view(*batch, columns + 1, rows)
    return longer[..., 1:, :].reshape(*batch, rows, columns)[..., :keys]
