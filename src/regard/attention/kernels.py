"""Attention over many short sentences on a GPU: one program for each sentence and head.

A flash kernel walks over long rows in tiles of 128, and a sentence of 20 words leaves most of such
a tile empty. Here a sentence is one tile, as small as the batch allows. It computes what `attend`
does with `scaled_dot` and `soft`. Triton has to be there, so whoever takes this imports it late.
"""

# Not `from __future__ import annotations`: Triton reads `tl.constexpr` out of the annotations.
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.data.ragged import Lengths

_LONGEST = tl.constexpr(128)  # tokens of a sentence, on either side
_LARGEST_TILE = 128 * 64  # tokens by width: more does not fit into the memory beside a GPU's cores


def fits(query: Tensor, value: Tensor, queries: Lengths, keys: Lengths) -> bool:
    """Whether each sentence can be one tile."""
    longest, width = max(queries.longest, keys.longest), max(query.shape[-1], value.shape[-1])
    return longest <= _LONGEST.value and _block(longest) * _block(width) <= _LARGEST_TILE


@torch.compiler.disable  # whoever compiles what surrounds it calls it as it is
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
    """`attend` within each sentence of a flat batch; the parts may be views of one product.

    query (N, H, d), key (M, H, d), value (M, H, e) -> (N, H, e)
    Where it is causal, all may still see so many first tokens as `prefix` says, (B,).
    With `mask_diagonal` a position does not attend to itself.
    """
    assert fits(query, value, queries, keys)
    rules = causal, prefix, mask_diagonal, dropout
    result: Tensor = _SentenceAttention.apply(query, key, value, queries, keys, *rules)
    return result


class _SentenceAttention(torch.autograd.Function):
    """No weights are kept: those of a short sentence are sooner computed again than read."""

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
        query, key, value = _rows(query), _rows(key), _rows(value)
        # Drawn on the device, so that nobody waits for it. Without dropout nobody reads it.
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
        found = [part.new_empty(part.shape) for part in (query, key, value)]
        _launch(_backward, ctx, query, key, value, seed, gradients[0].contiguous(), *found)
        return *found, *(None,) * 6


def _rows(part: Tensor) -> Tensor:
    """A view whose heads are rows of neighbouring numbers is read where it lies."""
    return part if part.stride(-1) == 1 else part.contiguous()


def _launch(
    kernel: Any, ctx: Any, query: Tensor, key: Tensor, value: Tensor, seed: Tensor, *others: Tensor
) -> None:
    """One program for each sentence and head; `others` lie end to end."""
    queries, keys = _block(ctx.queries.longest), _block(ctx.keys.longest)
    sides = _sides(max(queries, keys))
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
                *(place for part in (query, key, value) for place in part.stride()[:2]),
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


def _sides(largest: int) -> list[int]:
    """The tiles to launch for, each for the sentences that do not fit into the one before.

    A tile of 128 takes long, and hardly a batch has many sentences that need it.
    """
    return [largest // 2, largest] if largest > 32 else [largest]


def _block(size: int) -> int:
    """A tile's side: a power of two, and no less than a tensor core multiplies."""
    return max(16, 1 << (size - 1).bit_length())


def _warps(side: int) -> int:
    """Threads enough that a tile stays in their registers, and no more than have work."""
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
    if _is_anothers(count, key_count, shorter, queries, keys):
        return
    q = _load(query, first, count, query_row, query_head, queries, key_width, key_block)
    k = _load(key, key_first, key_count, key_row, key_head, keys, key_width, key_block)
    v = _load(value, key_first, key_count, value_row, value_head, keys, value_width, value_block)
    weights = _weights(q, k, count, key_count, prefix, scale, causal, mask_diagonal, queries, keys)
    if drops:
        weights *= _kept(seed, first, dropout, queries, keys)
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
    if _is_anothers(count, key_count, shorter, queries, keys):
        return
    q = _load(query, first, count, query_row, query_head, queries, key_width, key_block)
    k = _load(key, key_first, key_count, key_row, key_head, keys, key_width, key_block)
    v = _load(value, key_first, key_count, value_row, value_head, keys, value_width, value_block)
    row = heads * value_width
    dy = _load(gradient, first, count, row, value_width, queries, value_width, value_block)

    weights = _weights(q, k, count, key_count, prefix, scale, causal, mask_diagonal, queries, keys)
    dropped, dweights = weights, tl.dot(dy, tl.trans(v), input_precision="ieee")
    if drops:
        kept = _kept(seed, first, dropout, queries, keys)
        dropped *= kept
        dweights *= kept
    dv = tl.dot(tl.trans(dropped.to(v.dtype)), dy, input_precision="ieee")
    head = value_width  # gradients lie end to end
    _store(value_gradient, dv, key_first, key_count, row, head, keys, value_width, value_block)

    # Softmax: what all keys of a query have in common moves no weight from one to another.
    common = tl.sum(weights * dweights, 1)[:, None]
    dscores = (weights * (dweights - common) * scale).to(q.dtype)
    row = heads * key_width
    dq = tl.dot(dscores, k, input_precision="ieee")
    _store(query_gradient, dq, first, count, row, key_width, queries, key_width, key_block)
    dk = tl.dot(tl.trans(dscores), q, input_precision="ieee")
    _store(key_gradient, dk, key_first, key_count, row, key_width, keys, key_width, key_block)


@triton.jit
def _sentence(offsets):
    """Where this program's sentence begins, and how long it is."""
    first = tl.load(offsets + tl.program_id(0))
    return first, tl.load(offsets + tl.program_id(0) + 1) - first


@triton.jit
def _is_anothers(count, key_count, shorter, queries: tl.constexpr, keys: tl.constexpr):
    """Whether this sentence has a tile of its size in another launch."""
    longer = tl.maximum(count, key_count)
    return (longer <= shorter) | (longer > max(queries, keys))


@triton.jit
def _places(
    base, first, count, row, head, size: tl.constexpr, width: tl.constexpr, block: tl.constexpr
):
    """The tile of a sentence in this program's head, and which of it is real."""
    i, c = tl.arange(0, size)[:, None], tl.arange(0, block)[None, :]
    base += first.to(tl.int64) * row + tl.program_id(1) * head  # a batch may pass 2**31 numbers
    return base + i * row + c, (i < count) & (c < width)


@triton.jit
def _load(
    base, first, count, row, head, size: tl.constexpr, width: tl.constexpr, block: tl.constexpr
):
    places, real = _places(base, first, count, row, head, size, width, block)
    return tl.load(places, mask=real, other=0.0)


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
    places, real = _places(base, first, count, row, head, size, width, block)
    tl.store(places, tile.to(base.dtype.element_ty), mask=real)


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
    """Softmax in float32; zero where there is no token, or where a query may not look."""
    i, j = tl.arange(0, queries)[:, None], tl.arange(0, keys)[None, :]
    seen = (i < count) & (j < key_count)
    if causal:
        past = j - key_count <= i - count  # the last query stands at the last key
        if prefix is not None:
            past = past | (j < tl.load(prefix + tl.program_id(0)))
        seen = seen & past
    if mask_diagonal:
        seen = seen & (i != j)
    scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    scores = tl.where(seen, scores, -1e30)  # not -inf: a row without keys would be NaN
    weights = tl.exp(scores - tl.max(scores, 1)[:, None])
    return tl.where(seen, weights / tl.sum(weights, 1)[:, None], 0.0)


@triton.jit
def _kept(seed, first, dropout, queries: tl.constexpr, keys: tl.constexpr):
    """What dropout makes of ones: a function of seed, query, head and key, so drawn twice alike."""
    i, j = tl.arange(0, queries)[:, None], tl.arange(0, keys)[None, :]
    row = (first + i) * tl.num_programs(1) + tl.program_id(1)
    drawn = tl.rand(tl.load(seed), row * _LONGEST + j)
    return tl.where(drawn < dropout, 0.0, 1.0 / (1.0 - dropout))
