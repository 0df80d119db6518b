"""Triton kernels of attention over many short sentences: one program per sentence and head.

Flash attention processes long rows in tiles of 128, most of which a sentence of 20 tokens would
leave empty. Here each sentence is one tile, as small as the batch allows. The result is that of
`attend` with `scaled_dot` and `soft`. Requires Triton, so import this module only where it exists.
"""

# Not `from __future__ import annotations`: Triton reads `tl.constexpr` out of the annotations.
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.data.ragged import Lengths

_MAX_LENGTH = tl.constexpr(128)  # tokens of a sentence, on either side
_MAX_TILE = 128 * 64  # tokens by features: more does not fit into shared memory


def is_supported(query: Tensor, value: Tensor, queries: Lengths, keys: Lengths) -> bool:
    """Whether each sentence fits into one tile."""
    longest, width = max(queries.longest, keys.longest), max(query.shape[-1], value.shape[-1])
    return longest <= _MAX_LENGTH.value and _block(longest) * _block(width) <= _MAX_TILE


@torch.compiler.disable
def sentence_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    queries: Lengths,
    keys: Lengths,
    *,
    causal: bool = False,
    prefix: Tensor | None = None,
    mask_diagonal: bool = False,
    dropout: float = 0.0,
) -> Tensor:
    """`attend` within each sentence of a flat batch; inputs may be views of a packed projection.

    query (N, H, d), key (M, H, d), value (M, H, e) -> (N, H, e)
    With `causal`, the first `prefix` (B,) tokens remain visible to all queries.
    With `mask_diagonal` a position does not attend to itself.
    """
    assert is_supported(query, value, queries, keys)
    options = causal, prefix, mask_diagonal, dropout
    result: Tensor = _SentenceAttention.apply(query, key, value, queries, keys, *options)
    return result


class _SentenceAttention(torch.autograd.Function):
    """Recomputes the weights in backward, which is faster than storing and loading them."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        queries: Lengths,
        keys: Lengths,
        causal: bool,
        prefix: Tensor | None,
        mask_diagonal: bool,
        dropout: float,
    ) -> Tensor:
        query, key, value = (
            _with_contiguous_features(query),
            _with_contiguous_features(key),
            _with_contiguous_features(value),
        )
        # Drawn on the device, without a synchronization. Without dropout it is not read.
        seed = torch.randint(2**31, (1,), device=query.device) if dropout else queries.offsets
        ctx.save_for_backward(query, key, value, seed)
        ctx.queries, ctx.keys, ctx.causal, ctx.dropout = queries, keys, causal, dropout
        ctx.prefix = prefix if causal else None
        ctx.mask_diagonal = mask_diagonal
        result = query.new_empty(*query.shape[:2], value.shape[2])
        _launch(_forward, ctx, query, key, value, seed, result)
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, seed = ctx.saved_tensors
        results = [part.new_empty(part.shape) for part in (query, key, value)]
        _launch(_backward, ctx, query, key, value, seed, gradients[0].contiguous(), *results)
        return *results, *(None,) * 6


def _with_contiguous_features(part: Tensor) -> Tensor:
    """The tensor itself if its features are contiguous, else a contiguous copy."""
    return part if part.stride(-1) == 1 else part.contiguous()


def _launch(
    kernel: Any, ctx: Any, query: Tensor, key: Tensor, value: Tensor, seed: Tensor, *others: Tensor
) -> None:
    """Launch one program per sentence and head; `others` are contiguous."""
    queries, keys = _block(ctx.queries.longest), _block(ctx.keys.longest)
    sides = _tile_sizes(max(queries, keys))
    with torch.cuda.device_of(query):
        for shorter, side in zip([0, *sides], sides, strict=False):
            kernel[(len(ctx.queries), query.shape[1])](
                *(
                    query,
                    key,
                    value,
                    *others,
                    ctx.queries.offsets,
                    ctx.keys.offsets,
                    ctx.prefix,
                    seed,
                ),
                *(stride for part in (query, key, value) for stride in part.stride()[:2]),
                shorter=shorter,
                scale=query.shape[2] ** -0.5,
                dropout=ctx.dropout,
                drops=ctx.dropout > 0,
                causal=ctx.causal,
                mask_diagonal=ctx.mask_diagonal,
                queries=min(queries, side),
                keys=min(keys, side),
                key_width=query.shape[2],
                key_block=_block(query.shape[2]),
                value_width=value.shape[2],
                value_block=_block(value.shape[2]),
                num_warps=_warps(side),
            )


def _tile_sizes(largest: int) -> list[int]:
    """The tile sizes to launch, each for the sentences that do not fit into the smaller one.

    A tile of 128 is slow, and few sentences of a batch need it.
    """
    return [largest // 2, largest] if largest > 32 else [largest]


def _block(size: int) -> int:
    """The side of a tile: a power of two, at least 16 for tensor cores."""
    return max(16, 1 << (size - 1).bit_length())


def _warps(side: int) -> int:
    """Enough warps to hold a tile in registers."""
    return max(1, side // 16)


@triton.jit
def _forward(
    query,
    key,
    value,
    result,
    query_offsets,
    key_offsets,
    prefix,
    seed,
    query_row,
    query_head,
    key_row,
    key_head,
    value_row,
    value_head,
    shorter,
    scale,
    dropout,
    drops: tl.constexpr,
    causal: tl.constexpr,
    mask_diagonal: tl.constexpr,
    queries: tl.constexpr,
    keys: tl.constexpr,
    key_width: tl.constexpr,
    key_block: tl.constexpr,
    value_width: tl.constexpr,
    value_block: tl.constexpr,
):
    heads = tl.num_programs(1)
    first, count = _sentence(query_offsets)
    key_first, key_count = _sentence(key_offsets)
    if _is_skipped(count, key_count, shorter, queries, keys):
        return
    q = _load(query, first, count, query_row, query_head, queries, key_width, key_block)
    k = _load(key, key_first, key_count, key_row, key_head, keys, key_width, key_block)
    v = _load(value, key_first, key_count, value_row, value_head, keys, value_width, value_block)
    weights = _weights(q, k, count, key_count, prefix, scale, causal, mask_diagonal, queries, keys)
    if drops:
        weights *= _dropout_scale(seed, first, dropout, queries, keys)
    y = tl.dot(weights.to(v.dtype), v, input_precision="ieee")
    row = heads * value_width
    _store(result, y, first, count, row, value_width, queries, value_width, value_block)


@triton.jit
def _backward(
    query,
    key,
    value,
    gradient,
    query_gradient,
    key_gradient,
    value_gradient,
    query_offsets,
    key_offsets,
    prefix,
    seed,
    query_row,
    query_head,
    key_row,
    key_head,
    value_row,
    value_head,
    shorter,
    scale,
    dropout,
    drops: tl.constexpr,
    causal: tl.constexpr,
    mask_diagonal: tl.constexpr,
    queries: tl.constexpr,
    keys: tl.constexpr,
    key_width: tl.constexpr,
    key_block: tl.constexpr,
    value_width: tl.constexpr,
    value_block: tl.constexpr,
):
    heads = tl.num_programs(1)
    first, count = _sentence(query_offsets)
    key_first, key_count = _sentence(key_offsets)
    if _is_skipped(count, key_count, shorter, queries, keys):
        return
    q = _load(query, first, count, query_row, query_head, queries, key_width, key_block)
    k = _load(key, key_first, key_count, key_row, key_head, keys, key_width, key_block)
    v = _load(value, key_first, key_count, value_row, value_head, keys, value_width, value_block)
    row = heads * value_width
    dy = _load(gradient, first, count, row, value_width, queries, value_width, value_block)

    weights = _weights(q, k, count, key_count, prefix, scale, causal, mask_diagonal, queries, keys)
    dropped, dweights = weights, tl.dot(dy, tl.trans(v), input_precision="ieee")
    if drops:
        scales = _dropout_scale(seed, first, dropout, queries, keys)
        dropped *= scales
        dweights *= scales
    dv = tl.dot(tl.trans(dropped.to(v.dtype)), dy, input_precision="ieee")
    head = value_width  # gradients are contiguous
    _store(value_gradient, dv, key_first, key_count, row, head, keys, value_width, value_block)

    # The gradient of softmax: a change common to all scores of a query has no effect.
    common = tl.sum(weights * dweights, 1)[:, None]
    dscores = (weights * (dweights - common) * scale).to(q.dtype)
    row = heads * key_width
    dq = tl.dot(dscores, k, input_precision="ieee")
    _store(query_gradient, dq, first, count, row, key_width, queries, key_width, key_block)
    dk = tl.dot(tl.trans(dscores), q, input_precision="ieee")
    _store(key_gradient, dk, key_first, key_count, row, key_width, keys, key_width, key_block)


@triton.jit
def _sentence(offsets):
    """The offset and length of this program's sentence."""
    first = tl.load(offsets + tl.program_id(0))
    return first, tl.load(offsets + tl.program_id(0) + 1) - first


@triton.jit
def _is_skipped(count, key_count, shorter, queries: tl.constexpr, keys: tl.constexpr):
    """Whether this sentence belongs to a launch with another tile size."""
    longer = tl.maximum(count, key_count)
    return (longer <= shorter) | (longer > max(queries, keys))


@triton.jit
def _pointers(
    base, first, count, row, head, size: tl.constexpr, width: tl.constexpr, block: tl.constexpr
):
    """Pointers to the tile of a sentence in this program's head, and its mask."""
    i, c = tl.arange(0, size)[:, None], tl.arange(0, block)[None, :]
    base += first.to(tl.int64) * row + tl.program_id(1) * head  # a batch may exceed 2**31 numbers
    return base + i * row + c, (i < count) & (c < width)


@triton.jit
def _load(
    base, first, count, row, head, size: tl.constexpr, width: tl.constexpr, block: tl.constexpr
):
    pointers, mask = _pointers(base, first, count, row, head, size, width, block)
    return tl.load(pointers, mask=mask, other=0.0)


@triton.jit
def _store(
    base,
    tile,
    first,
    count,
    row,
    head,
    size: tl.constexpr,
    width: tl.constexpr,
    block: tl.constexpr,
):
    pointers, mask = _pointers(base, first, count, row, head, size, width, block)
    tl.store(pointers, tile.to(base.dtype.element_ty), mask=mask)


@triton.jit
def _weights(
    q,
    k,
    count,
    key_count,
    prefix,
    scale,
    causal: tl.constexpr,
    mask_diagonal: tl.constexpr,
    queries: tl.constexpr,
    keys: tl.constexpr,
):
    """Softmax in float32; zero where keys are masked or there is no token."""
    i, j = tl.arange(0, queries)[:, None], tl.arange(0, keys)[None, :]
    visible = (i < count) & (j < key_count)
    if causal:
        past = j - key_count <= i - count  # the last query is at the position of the last key
        if prefix is not None:
            past = past | (j < tl.load(prefix + tl.program_id(0)))
        visible = visible & past
    if mask_diagonal:
        visible = visible & (i != j)
    scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    scores = tl.where(visible, scores, -1e30)  # not -inf: a row without keys would be NaN
    weights = tl.exp(scores - tl.max(scores, 1)[:, None])
    return tl.where(visible, weights / tl.sum(weights, 1)[:, None], 0.0)


@triton.jit
def _dropout_scale(seed, first, dropout, queries: tl.constexpr, keys: tl.constexpr):
    """Dropout of ones, a function of seed, query, head and key: the same in both passes."""
    i, j = tl.arange(0, queries)[:, None], tl.arange(0, keys)[None, :]
    row = (first + i) * tl.num_programs(1) + tl.program_id(1)
    random = tl.rand(tl.load(seed), row * _MAX_LENGTH + j)
    return tl.where(random < dropout, 0.0, 1.0 / (1.0 - dropout))
