"""Attention of a decoding step as a Triton kernel: a few queries of each sentence, and many keys.

One program takes all beams of a sentence and one head. It reads no further than where the beams
stand, or the source ends, whatever room there is: so one recording of a step serves all steps.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_MOST_BEAMS = 16  # a tile of queries
_WIDEST = 256  # numbers of a head
_KEYS = 64  # at a time
_HALF = (torch.float16, torch.bfloat16)
_LEAST = tl.constexpr(-1e30)  # lower than any score, and finite: differences stay numbers


def fits(query: Tensor, value: Tensor) -> bool:
    """Whether precision and sizes allow the kernel; query (B, W, H, d), value (B, C, H, e)."""
    width = max(query.shape[-1], value.shape[-1])
    return query.dtype in _HALF and query.shape[1] <= _MOST_BEAMS and width <= _WIDEST


def attention_along(
    query: Tensor, keys: Tensor, values: Tensor, trails: Tensor, place: Tensor
) -> Tensor:
    """Each beam looks at the columns that it came through, up to its place.

    query (B, W, H, d), keys (B, C, H, d), values (B, C, H, e), trails (B, W, T), place (1,)
    -> (B, W, H, e); column `p W + w` is what beam w wrote at place p
    """
    return _launch(query, keys, values, trails, place, along=True)


def attention_to(query: Tensor, keys: Tensor, values: Tensor, lengths: Tensor) -> Tensor:
    """Each beam looks at all columns of its sentence's source.

    query (B, W, H, d), keys (B, S, H, d), values (B, S, H, e), lengths (B,) -> (B, W, H, e)
    """
    return _launch(query, keys, values, lengths, lengths, along=False)


def _launch(
    query: Tensor, keys: Tensor, values: Tensor, table: Tensor, place: Tensor, *, along: bool
) -> Tensor:
    sentences, beams, heads, width = query.shape
    value_width = values.shape[-1]
    assert all(part.is_contiguous() for part in (keys, values, table))
    assert query.stride()[2:] == (width, 1)
    result = query.new_empty(sentences, beams, heads, value_width)
    _attention[(sentences, heads)](
        *(query, keys, values, table, place, result),
        *(query.stride(0), query.stride(1), heads, keys.shape[1], width**-0.5),
        width=width,
        value_width=value_width,
        width_block=max(16, triton.next_power_of_2(width)),
        value_block=max(16, triton.next_power_of_2(value_width)),
        beams=beams,
        along=along,
        block=_KEYS,
        rows=_MOST_BEAMS,
        num_warps=4,
        enable_fp_fusion=True,  # as Triton always did; unsaid, newer versions warn of a change
    )
    return result


@triton.jit
def _attention(
    query,
    keys,
    values,
    table,
    place,
    result,
    query_sentence,
    query_beam,
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
    rows: tl.constexpr,
):
    """All beams of a sentence, one head; table: trails, or the lengths of sources."""
    sentence, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    beam, inner, outer = tl.arange(0, rows), tl.arange(0, width_block), tl.arange(0, value_block)
    own = (beam < beams)[:, None]
    at = query + sentence * query_sentence + beam[:, None] * query_beam + head * width
    q = tl.load(at + inner[None, :], mask=own & (inner < width)[None, :], other=0.0)
    if along:
        count = tl.minimum(room, (tl.load(place).to(tl.int32) + 1) * beams)
    else:
        count = tl.load(table + sentence).to(tl.int32)
    top = tl.full((rows,), _LEAST, tl.float32)
    mass = tl.zeros((rows,), tl.float32)
    found = tl.zeros((rows, value_block), tl.float32)
    for first in range(0, count, block):
        column = first + tl.arange(0, block)
        cell = (sentence * room + column) * heads + head  # of a sentence, a column and a head
        known = (column < count)[None, :] & (inner < width)[:, None]
        k = tl.load(keys + cell[None, :] * width + inner[:, None], mask=known, other=0.0)
        scores = tl.dot(q, k, input_precision="ieee") * scale
        may = own & (column < count)[None, :]
        if along:
            trail = table + (sentence * beams + beam[:, None]) * (room // beams)
            came = tl.load(trail + (column // beams)[None, :], mask=may, other=-1)
            may = may & (came == (column % beams)[None, :])
        higher = tl.maximum(top, tl.max(tl.where(may, scores, _LEAST), 1))
        weights = tl.where(may, tl.exp(scores - higher[:, None]), 0.0)
        shrink = tl.exp(top - higher)
        mass = mass * shrink + tl.sum(weights, 1)
        known = (column < count)[:, None] & (outer < value_width)[None, :]
        v = tl.load(values + cell[:, None] * value_width + outer[None, :], mask=known, other=0.0)
        found = found * shrink[:, None] + tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        top = higher
    found = found / tl.maximum(mass, 1e-30)[:, None]
    at = result + ((sentence * beams + beam[:, None]) * heads + head) * value_width + outer[None, :]
    known = own & (outer < value_width)[None, :]
    tl.store(at, found.to(result.dtype.element_ty), mask=known)
