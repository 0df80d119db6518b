"""Attention of a decoding step as a Triton kernel: one query, and all that it may see.

One program takes one beam and one head. It follows the beam's trail and reads no further than where
the beam stands, or the source ends, whatever room there is: one recording of a step serves all.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_WIDEST = 256  # numbers of a head
_KEYS = 32  # at a time
_HALF = (torch.float16, torch.bfloat16)


def fits(query: Tensor, value: Tensor) -> bool:
    """Whether precision and sizes allow the kernel; query (B, W, H, d), value (B, H, C, e)."""
    width = max(query.shape[-1], value.shape[-1])
    return query.dtype in _HALF and width <= _WIDEST


def attention_along(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    keys: Tensor,
    values: Tensor,
    trails: Tensor,
    place: Tensor,
) -> Tensor:
    """Each beam writes its column, and looks at the columns that it came through.

    query, key (B, W, H, d), value (B, W, H, e), keys (B, H, C, d), values (B, H, C, e),
    trails (B, W, T), place (1,) -> (B, W, H, e); column `p W + w` is beam w's at place p
    """
    return _launch(query, key, value, keys, values, trails, place, along=True)


def attention_to(query: Tensor, keys: Tensor, values: Tensor, lengths: Tensor) -> Tensor:
    """Each beam looks at all columns of its sentence's source.

    query (B, W, H, d), keys (B, H, S, d), values (B, H, S, e), lengths (B,) -> (B, W, H, e)
    """
    return _launch(query, query, query, keys, values, lengths, lengths, along=False)


def _launch(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    keys: Tensor,
    values: Tensor,
    table: Tensor,
    place: Tensor,
    *,
    along: bool,
) -> Tensor:
    sentences, beams, heads, width = query.shape
    value_width = values.shape[-1]
    assert all(part.is_contiguous() for part in (keys, values, table))
    rows = [part.view(sentences * beams, heads, -1) for part in (query, key, value)]
    assert all(part.stride()[1:] == (part.shape[2], 1) for part in rows)
    result = query.new_empty(sentences, beams, heads, value_width)
    _attention[(sentences * beams, heads)](
        *(query, key, value, keys, values, table, place, result),
        *(part.stride(0) for part in rows),  # they may be parts of one product
        *(heads, keys.shape[2], width**-0.5),
        width=width,
        value_width=value_width,
        width_block=triton.next_power_of_2(width),
        value_block=triton.next_power_of_2(value_width),
        beams=beams,
        along=along,
        block=_KEYS,
        num_warps=2,
        enable_fp_fusion=True,  # as Triton always did; unsaid, newer versions warn of a change
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
    place,
    result,
    query_row,
    key_row,
    value_row,
    heads,
    room,
    scale,
    width: tl.constexpr,
    value_width: tl.constexpr,
    width_block: tl.constexpr,
    value_block: tl.constexpr,
    beams: tl.constexpr,
    along: tl.constexpr,
    block: tl.constexpr,
):
    """One beam, one head; table: trails, or the lengths of sources."""
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    sentence = row // beams
    store = (sentence * heads + head) * room  # where the columns of this head begin
    inner, outer = tl.arange(0, width_block), tl.arange(0, value_block)
    q = _load(query + row * query_row + head * width, inner, inner < width)
    if along:  # the beam's own column: written for later steps, and seen first
        count = tl.load(place).to(tl.int32)
        cell = store + count * beams + row % beams
        k = _load(key + row * key_row + head * width, inner, inner < width)
        found = _load(value + row * value_row + head * value_width, outer, outer < value_width)
        _store(keys + cell * width, k, inner, inner < width)
        _store(values + cell * value_width, found, outer, outer < value_width)
        top, mass = tl.sum(q * k) * scale, 1.0
    else:
        count = tl.load(table + sentence).to(tl.int32)
        found = tl.zeros((value_block,), tl.float32)
        top, mass = -1e30, 0.0
    for first in range(0, count, block):
        column = first + tl.arange(0, block)
        real = column < count
        if along:
            came = tl.load(table + row * (room // beams) + column, mask=real, other=0)
            cells = store + column * beams + came
        else:
            cells = store + column
        known, cells = real[:, None], cells[:, None]
        ks = _load(keys, cells * width + inner, known & (inner < width))
        vs = _load(values, cells * value_width + outer, known & (outer < value_width))
        scores = tl.where(real, tl.sum(ks * q, 1) * scale, -1e30)
        higher = tl.maximum(top, tl.max(scores))
        weights, shrink = tl.where(real, tl.exp(scores - higher), 0.0), tl.exp(top - higher)
        top, mass = higher, mass * shrink + tl.sum(weights)
        found = found * shrink + tl.sum(weights[:, None] * vs, 0)
    own = result + (row * heads + head) * value_width
    _store(own, found / tl.maximum(mass, 1e-30), outer, outer < value_width)


@triton.jit
def _load(base, places, real):
    return tl.load(base + places, mask=real, other=0.0).to(tl.float32)


@triton.jit
def _store(base, found, places, real):
    tl.store(base + places, found.to(base.dtype.element_ty), mask=real)
