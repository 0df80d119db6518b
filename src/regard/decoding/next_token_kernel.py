"""Triton kernels for next-token scores: log-sum-exp and maxima of logits, and greedy updates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.text.special import SPECIAL

if TYPE_CHECKING:
    from regard.decoding.runners import Search

CHUNK = 128  # tokens of the vocabulary
_BLOCK = 32  # chunks at a time
_ROWS = 256  # sentences at a time
_FIRST_ALLOWED = tl.constexpr(SPECIAL.bos + 1)  # the ids below are banned
_EOS = tl.constexpr(SPECIAL.eos)
assert (SPECIAL.pad, SPECIAL.unk, SPECIAL.bos, SPECIAL.eos) == (0, 1, 2, 3)


@dataclass(frozen=True)
class LogitSummary:
    """Summary of R rows of logits; banned tokens count in `logsumexp` only."""

    logsumexp: Tensor  # (R,)
    chunk_max: Tensor  # (R, chunks) the maximum of each chunk of the vocabulary
    max_logit: Tensor  # (R,)
    argmax: Tensor  # (R,)


def summarize(logits: Tensor, position: Tensor, min_length: int) -> LogitSummary:
    """The summary of logits (R, V); EOS is banned if position (1,) is below `min_length`."""
    rows, vocab_size = logits.shape
    chunks = triton.cdiv(vocab_size, CHUNK)
    floats = torch.empty(2, rows, dtype=torch.float32, device=logits.device)
    chunk_max = torch.empty(rows, chunks, dtype=torch.float32, device=logits.device)
    argmax = torch.empty(rows, dtype=torch.long, device=logits.device)
    _summarize[(rows,)](
        *(logits, position, floats, chunk_max, argmax),
        *(logits.stride(0), vocab_size, chunks, min_length),
        block=min(_BLOCK, triton.next_power_of_2(chunks)),
        chunk=CHUNK,
        num_warps=8,
        enable_fp_fusion=True,  # the old default; newer versions of Triton warn if it is not set
    )
    return LogitSummary(floats[0], chunk_max, floats[1], argmax)


@triton.jit
def _summarize(
    logits,
    position,
    floats,
    chunk_max,
    argmax,
    stride,
    vocab_size,
    chunks,
    min_length,
    block: tl.constexpr,
    chunk: tl.constexpr,
):
    """One row. Each position of a block has its own running sum; they are added up at the end."""
    row = tl.program_id(0).to(tl.int64)
    eos_allowed = tl.load(position) >= min_length
    running_max = tl.full((block, chunk), -1e30, tl.float32)
    running_sum = tl.zeros((block, chunk), tl.float32)
    best = -1e30
    best_token = 0
    for first in range(0, chunks, block):
        number = first + tl.arange(0, block)
        token = number[:, None] * chunk + tl.arange(0, chunk)[None, :]
        logit = tl.load(logits + row * stride + token, mask=token < vocab_size, other=-1e30)
        logit = logit.to(tl.float32)
        new_max = tl.maximum(running_max, logit)
        running_sum = running_sum * tl.exp(running_max - new_max) + tl.exp(logit - new_max)
        running_max = new_max
        allowed = (token >= _FIRST_ALLOWED) & (eos_allowed | (token != _EOS)) & (token < vocab_size)
        values, indices = tl.max(tl.where(allowed, logit, -1e30), 1, return_indices=True)
        tl.store(chunk_max + row * chunks + number, values, mask=number < chunks)
        value, best_chunk = tl.max(values, 0, return_indices=True)
        within_chunk = tl.sum(tl.where(number == first + best_chunk, indices, 0))
        best_token = tl.where(value > best, (first + best_chunk) * chunk + within_chunk, best_token)
        best = tl.maximum(best, value)
    row_max = tl.max(running_max)
    total = tl.sum(running_sum * tl.exp(running_max - row_max))
    tl.store(floats + row, row_max + tl.log(total))
    tl.store(floats + tl.num_programs(0) + row, best)
    tl.store(argmax + row, best_token)


def append_tokens(tokens: Tensor, log_probs: Tensor, search: Search[Any]) -> None:
    """Append one token to each sentence, as `GreedySearch._append` does. (B, 1), (B,)"""
    rows = len(log_probs)
    fields = search.position, search.last_tokens, search.log_probs, search.tokens, search.active
    assert all(part.is_contiguous() for part in fields)
    # With more warps, one could increment the position before another has read it.
    _append_tokens[(1,)](
        *(tokens.contiguous(), log_probs.contiguous(), *fields, rows), block=_ROWS, num_warps=1
    )


@triton.jit
def _append_tokens(
    tokens, log_probs, position, last_tokens, totals, table, active, rows, block: tl.constexpr
):
    step = tl.load(position)
    for first in range(0, rows, block):
        row = first + tl.arange(0, block)
        is_row = row < rows
        token = tl.load(tokens + row, mask=is_row, other=0)
        is_active = tl.load(active + row, mask=is_row, other=0) != 0
        log_prob = tl.load(log_probs + row, mask=is_row, other=0.0)
        total = tl.load(totals + row, mask=is_row, other=0.0)
        tl.store(totals + row, total + tl.where(is_active, log_prob, 0.0), mask=is_row)
        tl.store(active + row, is_active & (token != _EOS), mask=is_row)
        tl.store(last_tokens + row, token, mask=is_row)
        tl.store(table + step * rows + row, token, mask=is_row)
    tl.store(position, step + 1)
