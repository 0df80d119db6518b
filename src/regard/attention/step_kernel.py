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
    query: Tensor,
    key: Tensor,
    value: Tensor,
    keys: Tensor,
    values: Tensor,
    trails: Tensor,
    place: Tensor,
) -> Tensor:
    """Each beam writes its column, and looks at the columns that it came through.

    query, key (B, W, H, d), value (B, W, H, e), keys (B, C, H, d), values (B, C, H, e),
    trails (B, W, T), place (1,) -> (B, W, H, e); column `p W + w` is beam w's at place p
    """
    return _launch(query, key, value, keys, values, trails, place, along=True)


def attention_to(query: Tensor, keys: Tensor, values: Tensor, lengths: Tensor) -> Tensor:
    """Each beam looks at all columns of its sentence's source.

    query (B, W, H, d), keys (B, S, H, d), values (B, S, H, e), lengths (B,) -> (B, W, H, e)
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
    _attention[(sentences, heads)](
        *(query, key, value, keys, values, table, place, result),
        *(part.stride(0) for part in rows),  # they may be parts of one product
        *(heads, keys.shape[1], width**-0.5),
        width=width,
        value_width=value_width,
        width_block=max(16, triton.next_power_of_2(width)),
        value_block=max(16, triton.next_power_of_2(value_width)),
        beams=beams,
        along=along,
        block=_KEYS,
        rows=_MOST_BEAMS,
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
    rows: tl.constexpr,
):
    """All beams of a sentence, one head; table: trails, or the lengths of sources."""
    sentence, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    beam = tl.arange(0, rows)[:, None]
    inner, outer = tl.arange(0, width_block)[None, :], tl.arange(0, value_block)[None, :]
    own, row = beam < beams, sentence * beams + beam
    inside, within = own & (inner < width), own & (outer < value_width)
    q = tl.load(query + row * query_row + head * width + inner, mask=inside, other=0.0)
    if along:
        count = (tl.load(place).to(tl.int32) + 1) * beams
        new = (sentence * room + count - beams + beam) * heads + head
        _move(key + row * key_row + head * width + inner, keys + new * width + inner, inside)
        source = value + row * value_row + head * value_width + outer
        _move(source, values + new * value_width + outer, within)
        tl.debug_barrier()  # what other threads of this program wrote will be read
    else:
        count = tl.load(table + sentence).to(tl.int32)
    top, mass = tl.full((rows, 1), _LEAST, tl.float32), tl.zeros((rows, 1), tl.float32)
    found = tl.zeros((rows, value_block), tl.float32)
    for first in range(0, count, block):
        column = first + tl.arange(0, block)
        k = _columns(keys, sentence * room, column, count, head, heads, width, inner)
        v = _columns(values, sentence * room, column, count, head, heads, value_width, outer)
        may = own & (column < count)[None, :]
        if along:
            trail = table + row * (room // beams) + (column // beams)[None, :]
            may = may & (tl.load(trail, mask=may, other=-1) == (column % beams)[None, :])
        scores = tl.where(may, tl.dot(q, tl.trans(k), input_precision="ieee") * scale, _LEAST)
        higher = tl.maximum(top, tl.max(scores, 1)[:, None])
        weights, shrink = tl.where(may, tl.exp(scores - higher), 0.0), tl.exp(top - higher)
        top, mass = higher, mass * shrink + tl.sum(weights, 1)[:, None]
        found = found * shrink + tl.dot(weights.to(v.dtype), v, input_precision="ieee")
    found = (found / tl.maximum(mass, 1e-30)).to(result.dtype.element_ty)
    tl.store(result + (row * heads + head) * value_width + outer, found, mask=within)


@triton.jit
def _move(source, target, real):
    tl.store(target, tl.load(source, mask=real), mask=real)


@triton.jit
def _columns(base, begin, column, count, head, heads, width: tl.constexpr, inner):
    """The head's numbers of some columns of a sentence. (columns, block)"""
    cell = (begin + column[:, None]) * heads + head
    real = (column < count)[:, None] & (inner < width)
    return tl.load(base + cell * width + inner, mask=real, other=0.0)
