"""Where a word stands: attention is a bag of words, so order is added to the embedding."""

from __future__ import annotations

import functools
from typing import Literal

import torch
from torch import Tensor, nn

from regard.errors import ConfigError

Layout = Literal["interleaved", "halves"]


def sinusoids(length: int, width: int, layout: Layout = "interleaved") -> Tensor:
    """`sin(p / 10000^(2i/D))` and `cos` of the same, for positions 0 to length - 1. (length, D)

    "interleaved" puts each sine before its cosine, as the paper does; "halves" puts all sines
    before all cosines, as Marian does. Any length and any width.
    """
    return sinusoids_at(torch.arange(length), width, layout)


def sinusoids_at(places: Tensor, width: int, layout: Layout = "interleaved") -> Tensor:
    """The same for any places, negative ones too. (P,) -> (P, D)"""
    angles = _angles(places, width)
    sines, cosines = angles.sin(), angles.cos()
    cosines = cosines[:, : width // 2]  # an odd width has one sine more
    if layout == "halves":
        return torch.cat([sines, cosines], 1).float()
    table = torch.empty(len(places), width, dtype=torch.float64, device=places.device)
    table[:, 0::2], table[:, 1::2] = sines, cosines
    return table.float()


def _angles(places: Tensor, width: int) -> Tensor:
    """`p / 10000^(2i/D)`, in float64: at place 10,000 float32 is off by a thousandth. (P, pairs)"""
    pairs = torch.arange((width + 1) // 2, dtype=torch.float64, device=places.device)
    return places[:, None] * 10000.0 ** (-2.0 * pairs / width)


def rotate(vectors: Tensor, places: Tensor) -> Tensor:
    """Rotary positions (Su et al., 2021, arXiv:2104.09864): distance as an angle.

    Each pair of numbers is turned by `p / 10000^(2i/d)`, so the product of a query and a key
    depends on how far apart they stand, and not on where.

    vectors (P, ..., d) at places (P,) -> (P, ..., d)
    """
    angles = _angles(places, vectors.shape[-1])
    angles = angles.view(len(places), *[1] * (vectors.ndim - 2), -1)
    cosine, sine = angles.cos().to(vectors.dtype), angles.sin().to(vectors.dtype)
    even, odd = vectors[..., 0::2], vectors[..., 1::2]
    turned = [even * cosine - odd * sine, even * sine + odd * cosine]
    return torch.stack(turned, -1).flatten(-2)


class SinusoidalPositions(nn.Module):
    """Fixed encodings, for any length: also past what was seen in training."""

    def __init__(self, width: int, layout: Layout) -> None:
        super().__init__()
        self._width = width
        self._layout: Layout = layout

    def forward(self, positions: Tensor, longest: int) -> Tensor:
        """Positions (N,), all below `longest` -> (N, D)"""
        return _table(longest, self._width, self._layout, positions.device)[positions]


def _table(length: int, width: int, layout: Layout, device: torch.device) -> Tensor:
    """At least `length` rows, made once for all lengths up to the next power of two."""
    return _table_of(1 << (length - 1).bit_length(), width, layout, device)


@functools.lru_cache(maxsize=32)
def _table_of(length: int, width: int, layout: Layout, device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # made while translating, it may serve training later
        return sinusoids(length, width, layout).to(device)


class LearnedPositions(nn.Module):
    """A vector for each place, up to a limit."""

    def __init__(self, width: int, limit: int) -> None:
        super().__init__()
        self.table = nn.Embedding(limit, width)
        self._limit = limit

    def forward(self, positions: Tensor, longest: int) -> Tensor:
        """Positions (N,), all below `longest` -> (N, D)"""
        if longest > self._limit:
            raise ConfigError(
                f"A sentence of {longest} tokens needs more positions than the {self._limit} that "
                "this model learned. Split it, or train with a larger model.max_positions or with "
                "model.positions=sinusoidal."
            )
        return self.table(positions)


def added_positions(
    name: str, width: int, limit: int, layout: Layout = "interleaved"
) -> nn.Module | None:
    """Those of a name, if they are of the kind that is added to embeddings."""
    if name == "learned":
        return LearnedPositions(width, limit)
    return SinusoidalPositions(width, layout) if name == "sinusoidal" else None
