"""Masks: bool, True = may look, the query's axis before the key's. They combine with `&`.

The same stack of blocks is another model under another mask: BERT sees all (padding alone), GPT
what came before (causal), UniLM a source in full and its own words so far (prefix), XLNet what
comes earlier in some order (permutation).
"""

from __future__ import annotations

import torch
from torch import Tensor


def padding(lengths: Tensor, longest: int) -> Tensor:
    """Each sentence sees its own tokens and no padding. lengths (B,) -> (B, 1, 1, S)"""
    places = torch.arange(longest, device=lengths.device)
    return (places < lengths[:, None])[:, None, None, :]


def causal(queries: int, keys: int, device: torch.device | None = None) -> Tensor:
    """A position sees itself and what came before; the last query stands at the last key. (T, S)"""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


def off_diagonal(length: int, device: torch.device | None = None) -> Tensor:
    """A position sees all others, but not itself. (T, T)"""
    return ~torch.eye(length, dtype=torch.bool, device=device)


def prefix(lengths: Tensor, longest: int) -> Tensor:
    """All see the first `lengths` positions, and beyond them only what came before.

    lengths (B,) -> (B, 1, S, S)
    """
    return padding(lengths, longest) | causal(longest, longest, lengths.device)


def permutation(ranks: Tensor, *, itself: bool = True) -> Tensor:
    """A position sees lower ranks, and itself (XLNet's content stream) or not (its query stream).

    ranks (..., S), each position's place in the order -> (..., 1, S, S)
    """
    of_query, of_key = ranks[..., :, None], ranks[..., None, :]
    mask = of_key <= of_query if itself else of_key < of_query
    return mask.unsqueeze(-3)


def segments(queries: Tensor, keys: Tensor) -> Tensor:
    """A position sees those of its own segment. (B, T), (B, S) -> (B, 1, T, S)"""
    return (queries[:, :, None] == keys[:, None, :])[:, None]


def window(queries: int, keys: int, width: int, device: torch.device | None = None) -> Tensor:
    """A position sees those at most `width` away; the last query stands at the last key. (T, S)"""
    places = torch.arange(queries, device=device)[:, None] + keys - queries
    return (places - torch.arange(keys, device=device)).abs() <= width


def blotted(x: Tensor, mask: Tensor) -> Tensor:
    """Keys or values with zeros where no query may look, since zero times NaN would be NaN.

    x (..., S, d), mask (..., T, S) -> (..., S, d)
    """
    return x.masked_fill(~mask.any(-2).unsqueeze(-1), 0.0)
