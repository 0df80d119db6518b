"""Positional encodings: sinusoidal, learned and rotary."""

from __future__ import annotations

import functools
from typing import Literal

import torch
from torch import Tensor, nn

from regard.errors import ConfigError

Layout = Literal["interleaved", "halves"]


def sinusoids(length: int, dim: int, layout: Layout = "interleaved") -> Tensor:
    """`sin(p / 10000^(2i/D))` and `cos` of the same, for positions 0 to length - 1. (length, D)

    Layout "interleaved" puts each sine before its cosine (Vaswani et al., 2017), "halves" puts all
    sines before all cosines (Marian).
    """
    return sinusoids_at(torch.arange(length), dim, layout)


def sinusoids_at(positions: Tensor, dim: int, layout: Layout = "interleaved") -> Tensor:
    """`sinusoids` of any positions, including negative ones. (P,) -> (P, D)"""
    angles = _angles(positions, dim)
    sines, cosines = angles.sin(), angles.cos()
    cosines = cosines[:, : dim // 2]  # an odd width has one sine more
    if layout == "halves":
        return torch.cat([sines, cosines], 1).float()
    table = torch.empty(len(positions), dim, dtype=torch.float64, device=positions.device)
    table[:, 0::2], table[:, 1::2] = sines, cosines
    return table.float()


def _angles(positions: Tensor, dim: int) -> Tensor:
    """`p / 10000^(2i/D)` in float64: float32 is off by 0.001 at position 10,000. (P, pairs)"""
    pairs = torch.arange((dim + 1) // 2, dtype=torch.float64, device=positions.device)
    return positions[:, None] * 10000.0 ** (-2.0 * pairs / dim)


def rotate(vectors: Tensor, positions: Tensor) -> Tensor:
    """Rotary position embedding (Su et al., 2021, arXiv:2104.09864).

    Each pair of features is rotated by `p / 10000^(2i/d)`, so that the dot product of a query and a
    key depends only on their distance.

    vectors (P, ..., d) at positions (P,) -> (P, ..., d)
    """
    angles = _angles(positions, vectors.shape[-1])
    angles = angles.view(len(positions), *[1] * (vectors.ndim - 2), -1)
    cosine, sine = angles.cos().to(vectors.dtype), angles.sin().to(vectors.dtype)
    even, odd = vectors[..., 0::2], vectors[..., 1::2]
    rotated = [even * cosine - odd * sine, even * sine + odd * cosine]
    return torch.stack(rotated, -1).flatten(-2)


class SinusoidalPositions(nn.Module):
    """Sinusoidal encodings, for any length."""

    def __init__(self, dim: int, layout: Layout) -> None:
        super().__init__()
        self._dim = dim
        self._layout: Layout = layout

    def forward(self, positions: Tensor, longest: int) -> Tensor:
        """Positions (N,), all below `longest` -> (N, D)"""
        return _table(longest, self._dim, self._layout, positions.device)[positions]


def _table(length: int, dim: int, layout: Layout, device: torch.device) -> Tensor:
    """At least `length` rows; the table is cached for all lengths up to a power of two."""
    return _cached_table(1 << (length - 1).bit_length(), dim, layout, device)


@functools.lru_cache(maxsize=32)
def _cached_table(length: int, dim: int, layout: Layout, device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # a table made in inference may be used in training later
        return sinusoids(length, dim, layout).to(device)


class LearnedPositions(nn.Module):
    """Learned position embeddings, up to a limit."""

    def __init__(self, dim: int, limit: int) -> None:
        super().__init__()
        self.table = nn.Embedding(limit, dim)
        self._limit = limit

    def forward(self, positions: Tensor, longest: int) -> Tensor:
        """Positions (N,), all below `longest` -> (N, D)"""
        if longest > self._limit:
            raise ConfigError(
                f"A sentence of {longest} tokens exceeds the {self._limit} learned positions of "
                "this model. Split it, or train with a larger model.max_positions or with "
                "model.positional_encoding=sinusoidal."
            )
        return self.table(positions)


def make_position_embedding(
    name: str, dim: int, limit: int, layout: Layout = "interleaved"
) -> nn.Module | None:
    """The positional encoding that is added to embeddings; None for other kinds of positions."""
    if name == "learned":
        return LearnedPositions(dim, limit)
    return SinusoidalPositions(dim, layout) if name == "sinusoidal" else None
