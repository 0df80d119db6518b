"""Triton kernels of a decoding step: self-attention along beam histories, and cross-attention.

One program computes one query: one beam and one head. It reads the cache up to the current position
or the source length, not the whole capacity, so that one CUDA graph can be used at all positions.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_MAX_WIDTH = 256  # features of a head
_KEYS = 32  # per iteration
_HALF = (torch.float16, torch.bfloat16)


def is_supported(query: Tensor, value: Tensor) -> bool:
    """Whether the kernel supports dtype and sizes; query (B, W, H, d), value (B, H, C, e)."""
    width = max(query.shape[-1], value.shape[-1])
    return query.dtype in _HALF and width <= _MAX_WIDTH


def self_attention_step(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    keys: Tensor,
    values: Tensor,
    back_pointers: Tensor,
    position: Tensor,
) -> Tensor:
    """Write each beam's key and value into the cache, and attend along its history.

    query, key (B, W, H, d), value (B, W, H, e), keys (B, H, C, d), values (B, H, C, e),
    back_pointers (B, W, T), position (1,) -> (B, W, H, e); column `p W + w`: beam w at position p
    """
    tables = back_pointers, position
    return _launch(query, key, value, keys, values, *tables, self_attention=True)


def cross_attention_step(query: Tensor, keys: Tensor, values: Tensor, lengths: Tensor) -> Tensor:
    """Attend to all tokens of the source.

    query (B, W, H, d), keys (B, H, S, d), values (B, H, S, e), lengths (B,) -> (B, W, H, e)
    """
    return _launch(query, query, query, keys, values, lengths, lengths, self_attention=False)


def _launch(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    keys: Tensor,
    values: Tensor,
    table: Tensor,
    position: Tensor,
    *,
    self_attention: bool,
) -> Tensor:
    sentences, beams, heads, width = query.shape
    value_width = values.shape[-1]
    assert all(part.is_contiguous() for part in (keys, values, table))
    rows = [part.view(sentences * beams, heads, -1) for part in (query, key, value)]
    assert all(part.stride()[1:] == (part.shape[2], 1) for part in rows)
    result = query.new_empty(sentences, beams, heads, value_width)
    _attention[(sentences * beams, heads)](
        *(query, key, value, keys, values, table, position, result),
        *(part.stride(0) for part in rows),  # they may be views of a packed projection
        *(heads, keys.shape[2], width**-0.5),
        width=width,
        value_width=value_width,
        width_block=triton.next_power_of_2(width),
        value_block=triton.next_power_of_2(value_width),
        beams=beams,
        self_attention=self_attention,
        block=_KEYS,
        num_warps=2,
        enable_fp_fusion=True,  # the old default; newer versions warn if it is not set
    )
    return result


@triton.jit
def _attention(
    query,
    key,
    value,
    keys,
    values,
    table,
    position,
    result,
    query_row,
    key_row,
    value_row,
    heads,
    capacity,
    scale,
    width: tl.constexpr,
    value_width: tl.constexpr,
    width_block: tl.constexpr,
    value_block: tl.constexpr,
    beams: tl.constexpr,
    self_attention: tl.constexpr,
    block: tl.constexpr,
):
    """One beam, one head; table: back-pointers, or the lengths of sources."""
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    sentence = row // beams
    offset = (sentence * heads + head) * capacity  # of the columns of this head
    inner, outer = tl.arange(0, width_block), tl.arange(0, value_block)
    q = _load(query + row * query_row + head * width, inner, inner < width)
    if self_attention:  # write the new column for later steps, and attend to it first
        count = tl.load(position).to(tl.int32)
        cell = offset + count * beams + row % beams
        k = _load(key + row * key_row + head * width, inner, inner < width)
        total = _load(value + row * value_row + head * value_width, outer, outer < value_width)
        _store(keys + cell * width, k, inner, inner < width)
        _store(values + cell * value_width, total, outer, outer < value_width)
        top, mass = tl.sum(q * k) * scale, 1.0
    else:
        count = tl.load(table + sentence).to(tl.int32)
        total = tl.zeros((value_block,), tl.float32)
        top, mass = -1e30, 0.0
    for first in range(0, count, block):
        column = first + tl.arange(0, block)
        valid = column < count
        if self_attention:
            beam = tl.load(table + row * (capacity // beams) + column, mask=valid, other=0)
            cells = offset + column * beams + beam
        else:
            cells = offset + column
        rows, cells = valid[:, None], cells[:, None]
        ks = _load(keys, cells * width + inner, rows & (inner < width))
        vs = _load(values, cells * value_width + outer, rows & (outer < value_width))
        scores = tl.where(valid, tl.sum(ks * q, 1) * scale, -1e30)
        higher = tl.maximum(top, tl.max(scores))  # online softmax
        weights, shrink = tl.where(valid, tl.exp(scores - higher), 0.0), tl.exp(top - higher)
        top, mass = higher, mass * shrink + tl.sum(weights)
        total = total * shrink + tl.sum(weights[:, None] * vs, 0)
    output = result + (row * heads + head) * value_width
    _store(output, total / tl.maximum(mass, 1e-30), outer, outer < value_width)


@triton.jit
def _load(base, offsets, mask):
    return tl.load(base + offsets, mask=mask, other=0.0).to(tl.float32)


@triton.jit
def _store(base, values, offsets, mask):
    tl.store(base + offsets, values.to(base.dtype.element_ty), mask=mask)
