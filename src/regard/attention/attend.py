"""Attention as a function: score, mask, select, weighted sum.

a_n = softmax_n( s(k_n, q) )            att((K, V), q) = sum_n a_n v_n
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.masks import causal as causal_mask
from regard.attention.masks import off_diagonal, padding, zero_unattended
from regard.attention.scores import Score, scaled_dot
from regard.attention.select import Select, soft
from regard.data.ragged import Lengths
from regard.devices import has_triton

_MAX_STEP_QUERIES, _MIN_STEP_HEADS = 8, 64  # queries per head; heads of all sentences


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
    """The weighted sum of the values for each query; zeros where all keys are masked.

    query (..., T, d), key (..., S, d), value (..., S, e), mask and bias (..., T, S) -> (..., T, e)
    The bias is added to the scores; it must be finite wherever the mask is True. Keys and values
    that are masked for all queries may be NaN or infinite; with `finite`, the caller guarantees
    that they are not, which saves the copies that zero them. PyTorch's fused kernel is used where
    it computes the same and is faster.
    """
    if score is not scaled_dot or select is not soft or (mask is None and _is_step(query)):
        options: dict[str, Any] = {"mask": mask, "bias": bias, "score": score, "select": select}
        return attend_with_weights(query, key, value, dropout=dropout, **options)[0]
    if mask is not None and not finite:
        key, value = zero_unattended(key, mask), zero_unattended(value, mask)
    return _attend_fused(query, key, value, mask, bias, dropout)


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
    """`attend` without a fused kernel: the weighted sums (..., T, e) and weights (..., T, S)."""
    weights = attention_weights(query, key, mask=mask, bias=bias, score=score, select=select)
    if dropout > 0:
        weights = F.dropout(weights, dropout)
    return weights @ (value if mask is None else zero_unattended(value, mask)), weights


def attention_weights(
    query: Tensor,
    key: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    score: Score = scaled_dot,
    select: Select = soft,
) -> Tensor:
    """Attention weights; each row sums to 1, or to 0 where all keys are masked.

    query (..., T, d), key (..., S, d), mask and bias (..., T, S) -> (..., T, S)
    """
    scores = score(query, key if mask is None else zero_unattended(key, mask))
    return select(scores if bias is None else scores + bias, mask)


def _is_step(query: Tensor) -> bool:
    """Whether many heads have few queries each, as in a decoding step.

    On a CPU, the fused kernel is slower than plain matrix products for such heads.
    """
    heads = query.shape[:-2].numel()
    small = query.shape[-2] <= _MAX_STEP_QUERIES and heads >= _MIN_STEP_HEADS
    return query.is_cpu and small and not query.requires_grad


def _attend_fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    dropout: float,
) -> Tensor:
    fully_masked = None
    if mask is not None and query.is_cuda and query.requires_grad:
        # The gradient of a fully masked query would be NaN: unmask it, and zero its output.
        fully_masked = ~mask.any(-1, keepdim=True)
        mask = mask | fully_masked
    if bias is not None:  # the kernel takes either a mask or a bias
        mask = bias if mask is None else bias.masked_fill(~mask, -torch.inf)
    output = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)
    return output if fully_masked is None else output.masked_fill(fully_masked, 0.0)


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
    With `causal`, the first `prefix` (B,) tokens remain visible to all queries.
    With `mask_diagonal` a position does not attend to itself; queries and keys are the same tokens.
    In half precision on a GPU, faster kernels compute the same as `_attend_padded`.
    """
    assert not mask_diagonal or queries is keys
    if query.is_cuda and torch.is_autocast_enabled("cuda"):  # as for matrix products
        dtype = torch.get_autocast_dtype("cuda")
        query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
    half = query.is_cuda and query.dtype in (torch.float16, torch.bfloat16)
    if half and score is scaled_dot and select is soft:
        if has_triton():
            from regard.attention import kernels

            if kernels.is_supported(query, value, queries, keys):
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
        flash = dropout == 0.0 and prefix is None and not mask_diagonal
        if flash and query.shape[-1] == value.shape[-1]:
            return _attend_flash(query, key, value, queries, keys, causal)
    mask = ragged_mask(queries, keys, causal=causal, prefix=prefix, mask_diagonal=mask_diagonal)
    options: dict[str, Any] = {"mask": mask, "score": score, "select": select, "dropout": dropout}
    if query.is_cpu and query.dtype == torch.bfloat16:
        # PyTorch's backward kernel for CPUs is ten times slower in half precision.
        with torch.autocast("cpu", enabled=False):
            parts = query.float(), key.float(), value.float()
            return _attend_padded(*parts, queries, keys, **options).to(query.dtype)
    return _attend_padded(query, key, value, queries, keys, **options)


def ragged_mask(
    queries: Lengths,
    keys: Lengths,
    *,
    causal: bool = False,
    prefix: Tensor | None = None,
    mask_diagonal: bool = False,
) -> Tensor | None:
    """The mask of the padded batch; None if nothing is masked. (B, 1, T, S)"""
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


def _attend_padded(
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
    """The reference implementation: pad the batch for this call."""
    padded = [
        lengths.pad(row).transpose(1, 2)  # (B, H, T, d)
        for row, lengths in ((query, queries), (key, keys), (value, keys))
    ]
    if select is not soft:  # do not record selections of padding
        real = queries.mask[:, None, :, None]
        mask = real if mask is None else mask & real
    output = attend(*padded, mask=mask, select=select, finite=True, **options)
    return queries.unpad(output.transpose(1, 2))


def _attend_flash(
    query: Tensor, key: Tensor, value: Tensor, queries: Lengths, keys: Lengths, causal: bool
) -> Tensor:
    """PyTorch's flash attention over sentences of different lengths, without padding."""
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
