"""Masks: bool, True = may look, the query's axis before the key's. They combine with `&`."""

from __future__ import annotations

import torch
from torch import Tensor


def causal(queries: int, keys: int, device: torch.device | None = None) -> Tensor:
    """A position sees itself and what came before; the last query stands at the last key. (T, S)"""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


def padding(lengths: Tensor, longest: int) -> Tensor:
    """Each sentence sees its own tokens and no padding. lengths (B,) -> (B, 1, 1, S)"""
    places = torch.arange(longest, device=lengths.device)
    return (places < lengths[:, None])[:, None, None, :]


def blotted(x: Tensor, mask: Tensor) -> Tensor:
    """Keys or values with zeros where no query may look, since zero times NaN would be NaN.

    x (..., S, d), mask (..., T, S) -> (..., S, d)
    """
    return x.masked_fill(~mask.any(-2).unsqueeze(-1), 0.0)
