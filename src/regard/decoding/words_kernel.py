"""One pass over logits as a Triton kernel: what normalises them, and where the best words are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.text.special import SPECIAL

if TYPE_CHECKING:
    from regard.decoding.steps import Search

CHUNK = 128  # words
_BLOCK = 32  # chunks at a time
_ROWS = 256  # sentences at a time
_MARKS = tl.constexpr(SPECIAL.start + 1)  # nobody writes what stands before
_END = tl.constexpr(SPECIAL.end)
assert (SPECIAL.pad, SPECIAL.unknown, SPECIAL.start, SPECIAL.end) == (0, 1, 2, 3)


@dataclass(frozen=True)
class Summary:
    """Of R rows of logits. Forbidden words count in the masses alone."""

    masses: Tensor  # (R,) logarithms of sums of exponentials
    highest: Tensor  # (R, chunks) the highest logit of each chunk of words
    best: Tensor  # (R,) the highest of all
    word: Tensor  # (R,) and whose it is


def summary(logits: Tensor, place: Tensor, minimum: int) -> Summary:
    """Of logits (R, V) at a place (1,); before the minimum nobody ends."""
    rows, words = logits.shape
    chunks = triton.cdiv(words, CHUNK)
    floats = torch.empty(2, rows, dtype=torch.float32, device=logits.device)
    highest = torch.empty(rows, chunks, dtype=torch.float32, device=logits.device)
    word = torch.empty(rows, dtype=torch.long, device=logits.device)
    _summary[(rows,)](
        *(logits, place, floats, highest, word, logits.stride(0), words, chunks, minimum),
        block=min(_BLOCK, triton.next_power_of_2(chunks)),
        chunk=CHUNK,
        num_warps=8,
        enable_fp_fusion=True,  # as Triton always did; unsaid, newer versions warn of a change
    )
    return Summary(floats[0], highest, floats[1], word)


@triton.jit
def _summary(
    logits,
    place,
    floats,
    highest,
    word,
    stride,
    words,
    chunks,
    minimum,
    block: tl.constexpr,
    chunk: tl.constexpr,
):
    """One row. Sums are kept apart for each place of a block, and added up at the end."""
    row = tl.program_id(0).to(tl.int64)
    begun = tl.load(place) >= minimum
    top = tl.full((block, chunk), -1e30, tl.float32)
    mass = tl.zeros((block, chunk), tl.float32)
    best = -1e30
    at = 0
    for first in range(0, chunks, block):
        number = first + tl.arange(0, block)
        column = number[:, None] * chunk + tl.arange(0, chunk)[None, :]
        found = tl.load(logits + row * stride + column, mask=column < words, other=-1e30)
        found = found.to(tl.float32)
        higher = tl.maximum(top, found)
        mass = mass * tl.exp(top - higher) + tl.exp(found - higher)
        top = higher
        may = (column >= _MARKS) & (begun | (column != _END)) & (column < words)
        values, places = tl.max(tl.where(may, found, -1e30), 1, return_indices=True)
        tl.store(highest + row * chunks + number, values, mask=number < chunks)
        value, which = tl.max(values, 0, return_indices=True)
        inside = tl.sum(tl.where(number == first + which, places, 0))
        at = tl.where(value > best, (first + which) * chunk + inside, at)
        best = tl.maximum(best, value)
    highest_of_all = tl.max(top)
    total = tl.sum(mass * tl.exp(top - highest_of_all))
    tl.store(floats + row, highest_of_all + tl.log(total))
    tl.store(floats + tl.num_programs(0) + row, best)
    tl.store(word + row, at)


def write(tokens: Tensor, gains: Tensor, search: Search[Any]) -> None:
    """One more token for each sentence, as `GreedySearch` does it; (B, 1), (B,)"""
    rows = len(gains)
    kept = search.place, search.last, search.log_probs, search.tokens, search.going
    assert all(part.is_contiguous() for part in kept)
    # With more warps, one could move the place on before another has read it.
    _write[(1,)](tokens.contiguous(), gains.contiguous(), *kept, rows, block=_ROWS, num_warps=1)


@triton.jit
def _write(tokens, gains, place, last, log_probs, table, going, rows, block: tl.constexpr):
    at = tl.load(place)
    for first in range(0, rows, block):
        row = first + tl.arange(0, block)
        real = row < rows
        token = tl.load(tokens + row, mask=real, other=0)
        goes = tl.load(going + row, mask=real, other=0) != 0
        gain = tl.load(gains + row, mask=real, other=0.0)
        total = tl.load(log_probs + row, mask=real, other=0.0)
        tl.store(log_probs + row, total + tl.where(goes, gain, 0.0), mask=real)
        tl.store(going + row, goes & (token != _END), mask=real)
        tl.store(last + row, token, mask=real)
        tl.store(table + at * rows + row, token, mask=real)
    tl.store(place, at + 1)
