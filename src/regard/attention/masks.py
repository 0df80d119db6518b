"""Attention masks: bool tensors (..., queries, keys), True = visible. They combine with `&`.

The mask determines the kind of model: padding only (BERT), causal (GPT), prefix (UniLM), or
permutation (XLNet).
"""

from __future__ import annotations

import torch
from torch import Tensor


def padding(lengths: Tensor, longest: int) -> Tensor:
    """Mask of padded keys. lengths (B,) -> (B, 1, 1, S)"""
    positions = torch.arange(longest, device=lengths.device)
    return (positions < lengths[:, None])[:, None, None, :]


def causal(queries: int, keys: int, device: torch.device | None = None) -> Tensor:
    """Causal mask; the last query is at the position of the last key. (T, S)"""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


def off_diagonal(length: int, device: torch.device | None = None) -> Tensor:
    """Mask of the diagonal: no position attends to itself. (T, T)"""
    return ~torch.eye(length, dtype=torch.bool, device=device)


def prefix(lengths: Tensor, longest: int) -> Tensor:
    """Prefix mask: the first `lengths` positions are visible to all, the rest is causal.

    lengths (B,) -> (B, 1, S, S)
    """
    return padding(lengths, longest) | causal(longest, longest, lengths.device)


def permutation(ranks: Tensor, *, itself: bool = True) -> Tensor:
    """Permutation mask: positions of lower rank are visible; with `itself`, also the query's own.

    In XLNet, `itself` is True for the content stream and False for the query stream.
    ranks (..., S), the index of each position in the order -> (..., 1, S, S)
    """
    query_ranks, key_ranks = ranks[..., :, None], ranks[..., None, :]
    mask = key_ranks <= query_ranks if itself else key_ranks < query_ranks
    return mask.unsqueeze(-3)


def segments(queries: Tensor, keys: Tensor) -> Tensor:
    """Segment mask: keys of the query's segment are visible. (B, T), (B, S) -> (B, 1, T, S)"""
    return (queries[:, :, None] == keys[:, None, :])[:, None]


def window(queries: int, keys: int, width: int, device: torch.device | None = None) -> Tensor:
    """Sliding-window mask: keys within `width`; the last query is at the last key. (T, S)"""
    positions = torch.arange(queries, device=device)[:, None] + keys - queries
    return (positions - torch.arange(keys, device=device)).abs() <= width


def zero_unattended(x: Tensor, mask: Tensor) -> Tensor:
    """Keys or values, zeroed where they are masked for all queries: 0 * NaN would be NaN.

    x (..., S, d), mask (..., T, S) -> (..., S, d)
    """
    return x.masked_fill(~mask.any(-2).unsqueeze(-1), 0.0)
