"""Attention as a pure function: score, mask, select, weighted sum.

a_n = softmax_n( s(k_n, q) )            att((K, V), q) = sum_n a_n v_n
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.masks import blotted, off_diagonal, padding
from regard.attention.masks import causal as causal_mask
from regard.attention.scores import Score, scaled_dot
from regard.attention.select import Select, soft
from regard.data.ragged import Lengths
from regard.devices import has_triton

_FEW, _MANY = 8, 64  # queries of a head; heads of all sentences


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    score: Score = scaled_dot,
    select: Select = soft,
    dropout: float = 0.0,
    finite: bool = False,
) -> Tensor:
    """What each query gathers from the values; zeros where it may look nowhere.

    query (..., T, d), key (..., S, d), value (..., S, e), mask and bias (..., T, S) -> (..., T, e)
    The bias is added to the scores; it is finite wherever the mask lets a query look. What no query
    may see may hold anything, NaN too; `finite` promises that it holds numbers, as padding with
    zeros does, and saves the copies that blot it out. PyTorch's fused kernel is taken where it
    computes the same and is quicker.
    """
    if score is not scaled_dot or select is not soft or (mask is None and _is_step(query)):
        how: dict[str, Any] = {"mask": mask, "bias": bias, "score": score, "select": select}
        return attend_with_weights(query, key, value, dropout=dropout, **how)[0]
    if mask is not None and not finite:
        key, value = blotted(key, mask), blotted(value, mask)
    return _fused(query, key, value, mask, bias, dropout)


def attend_with_weights(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    score: Score = scaled_dot,
    select: Select = soft,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """`attend` by its definition: what is gathered (..., T, e), by which weights (..., T, S)."""
    weights = attention_weights(query, key, mask=mask, bias=bias, score=score, select=select)
    if dropout > 0:
        weights = F.dropout(weights, dropout)
    return weights @ (value if mask is None else blotted(value, mask)), weights


def attention_weights(
    query: Tensor,
    key: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    score: Score = scaled_dot,
    select: Select = soft,
) -> Tensor:
    """How much each query looks at each key; every row sums to 1, or to 0 where it may not look.

    query (..., T, d), key (..., S, d), mask and bias (..., T, S) -> (..., T, S)
    """
    scores = score(query, key if mask is None else blotted(key, mask))
    return select(scores if bias is None else scores + bias, mask)


def _is_step(query: Tensor) -> bool:
    """Whether many heads have a few queries each, as in a step of decoding.

    On a CPU, the fused kernel takes longer for such a head than its products do.
    """
    heads = query.shape[:-2].numel()
    return query.is_cpu and query.shape[-2] <= _FEW and heads >= _MANY and not query.requires_grad


def _fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    dropout: float,
) -> Tensor:
    blind = None
    if mask is not None and query.is_cuda and query.requires_grad:
        # The gradients of a query that may look nowhere are no numbers: let it look, and forget it.
        blind = ~mask.any(-1, keepdim=True)
        mask = mask | blind
    if bias is not None:  # the kernel takes one of both
        mask = bias if mask is None else bias.masked_fill(~mask, -torch.inf)
    found = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)
    return found if blind is None else found.masked_fill(blind, 0.0)


def attend_ragged(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    queries: Lengths,
    keys: Lengths,
    *,
    causal: bool = False,
    prefix: Tensor | None = None,
    mask_diagonal: bool = False,
    score: Score = scaled_dot,
    select: Select = soft,
    dropout: float = 0.0,
) -> Tensor:
    """`attend` within each sentence of a flat batch.

    query (N, H, d), key (M, H, d), value (M, H, e) -> (N, H, e)
    Where it is causal, all may still see so many first tokens as `prefix` says, (B,).
    With `mask_diagonal` a position does not attend to itself; queries and keys are the same tokens.
    A GPU in half precision has faster ways than `_padded`; each computes the same.
    """
    assert not mask_diagonal or queries is keys
    if query.is_cuda and torch.is_autocast_enabled("cuda"):  # as products are
        kind = torch.get_autocast_dtype("cuda")
        query, key, value = query.to(kind), key.to(kind), value.to(kind)
    half = query.is_cuda and query.dtype in (torch.float16, torch.bfloat16)
    if half and score is scaled_dot and select is soft:
        if has_triton():
            from regard.attention import kernels

            if kernels.fits(query, value, queries, keys):
                return kernels.sentence_attention(
                    query,
                    key,
                    value,
                    queries,
                    keys,
                    causal=causal,
                    prefix=prefix,
                    mask_diagonal=mask_diagonal,
                    dropout=dropout,
                )
        plain = dropout == 0.0 and prefix is None and not mask_diagonal
        if plain and query.shape[-1] == value.shape[-1]:
            return _flash(query, key, value, queries, keys, causal)
    mask = ragged_mask(queries, keys, causal=causal, prefix=prefix, mask_diagonal=mask_diagonal)
    options: dict[str, Any] = {"mask": mask, "score": score, "select": select, "dropout": dropout}
    if query.is_cpu and query.dtype == torch.bfloat16:
        # PyTorch's kernel for a CPU is ten times as slow backwards in half precision.
        with torch.autocast("cpu", enabled=False):
            parts = query.float(), key.float(), value.float()
            return _padded(*parts, queries, keys, **options).to(query.dtype)
    return _padded(query, key, value, queries, keys, **options)


def ragged_mask(
    queries: Lengths,
    keys: Lengths,
    *,
    causal: bool = False,
    prefix: Tensor | None = None,
    mask_diagonal: bool = False,
) -> Tensor | None:
    """Who may look at whom once the sentences are padded; None where all may. (B, 1, T, S)"""
    mask = None
    if keys.total < len(keys) * keys.longest:
        mask = padding(keys.lengths, keys.longest)
    if causal:
        order = causal_mask(queries.longest, keys.longest, keys.lengths.device)
        if prefix is not None:
            order = order | padding(prefix, keys.longest)
        mask = order if mask is None else mask & order
    if mask_diagonal:
        others = off_diagonal(queries.longest, keys.lengths.device)
        mask = others if mask is None else mask & others
    return mask


def _padded(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    queries: Lengths,
    keys: Lengths,
    *,
    mask: Tensor | None,
    select: Select = soft,
    **options: Any,
) -> Tensor:
    """What all ways compute: rectangles, for the length of this call."""
    padded = [
        lengths.pad(row).transpose(1, 2)  # (B, H, T, d)
        for row, lengths in ((query, queries), (key, keys), (value, keys))
    ]
    if select is not soft:  # whoever notes what was selected must not note padding
        real = queries.mask[:, None, :, None]
        mask = real if mask is None else mask & real
    found = attend(*padded, mask=mask, select=select, finite=True, **options)
    return queries.unpad(found.transpose(1, 2))


def _flash(
    query: Tensor, key: Tensor, value: Tensor, queries: Lengths, keys: Lengths, causal: bool
) -> Tensor:
    """PyTorch's flash attention over sentences of unequal length: nothing is padded at all."""
    from torch.nn.attention.varlen import varlen_attn

    result = varlen_attn(
        query.contiguous(),
        key.contiguous(),
        value.contiguous(),
        queries.offsets,
        keys.offsets,
        queries.longest,
        keys.longest,
        window_size=(-1, 0) if causal else (-1, -1),
    )
    assert isinstance(result, Tensor)
    return result
