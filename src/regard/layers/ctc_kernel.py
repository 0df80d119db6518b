"""Triton kernels of CTC, loss and Viterbi: one program per sentence.

Requires Triton, so import this module only where it exists.
"""

# Not `from __future__ import annotations`: Triton reads `tl.constexpr` out of the annotations.
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


def ctc_loss(
    scores: Tensor, states: Tensor, skips: Tensor, input_lengths: Tensor, label_lengths: Tensor
) -> Tensor:
    """The negative log-probability of all paths through all labels; 0 where no path fits.

    scores (B, T, K) in float32, states and skips (B, K), input_lengths and label_lengths (B,)
    -> (B,)
    """
    nll: Tensor = _CtcLoss.apply(scores, states, skips, input_lengths, label_lengths)
    return nll


class _CtcLoss(torch.autograd.Function):
    """Computes the posterior of each state at each position (forward-backward) in forward."""

    @staticmethod
    def forward(
        ctx: Any,
        scores: Tensor,
        states: Tensor,
        skips: Tensor,
        input_lengths: Tensor,
        label_lengths: Tensor,
    ) -> Tensor:
        sentences, longest, count = scores.shape
        block = triton.next_power_of_2(count)
        buffers = scores.new_full((2, sentences, block + 4), -torch.inf)
        posteriors = torch.zeros_like(scores)
        nll = scores.new_zeros(sentences)
        _ctc_loss[(sentences,)](
            *(
                scores.contiguous(),
                skips.contiguous(),
                input_lengths,
                label_lengths,
                buffers[0],
                buffers[1],
            ),
            *(posteriors, nll, longest, count),
            block=block,
            num_warps=max(1, min(8, block // 64)),
            enable_fp_fusion=True,  # the old default; newer versions warn if it is not set
        )
        ctx.save_for_backward(posteriors, states)
        return nll

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        posteriors, states = ctx.saved_tensors
        # Equal states share one score: its whole gradient goes to the first of them, so that the
        # result does not depend on the order of a sum.
        same = states[:, :, None] == states[:, None, :]
        first = same.float().argmax(2)  # (B, K)
        numbers = torch.arange(states.shape[1], device=states.device)
        is_first = (first[:, :, None] == numbers).float()
        return -(posteriors @ is_first) * gradients[0][:, None, None], None, None, None, None


@triton.jit
def _log_sum_exp(a, b, c):
    """log(exp(a) + exp(b) + exp(c))"""
    top = tl.maximum(a, tl.maximum(b, c))
    return top + tl.log(tl.exp(a - top) + tl.exp(b - top) + tl.exp(c - top))


@triton.jit
def _ctc_loss(
    scores,
    skips,
    input_lengths,
    label_lengths,
    forward_buffer,
    backward_buffer,
    posteriors,
    result,
    longest,
    states,
    block: tl.constexpr,
):
    """The forward variables of each state, then the backward variables and posteriors."""
    sentence = tl.program_id(0).to(tl.int64)
    length = tl.load(input_lengths + sentence)
    last = 2 * tl.load(label_lengths + sentence)  # the blank after the last label
    state = tl.arange(0, block)
    inside = state < states
    low = -1e30
    skip = tl.load(skips + sentence * states + state, mask=inside, other=0) != 0
    skip_to = tl.load(skips + sentence * states + state + 2, mask=state + 2 < states, other=0) != 0
    scores += sentence * longest * states
    posteriors += sentence * longest * states
    forward_buffer += sentence * (block + 4)
    backward_buffer += sentence * (block + 4)
    alpha = tl.load(scores + state, mask=inside & (state < 2), other=low)
    tl.store(posteriors + state, alpha, mask=inside)
    for position in range(1, length):
        tl.store(forward_buffer + 2 + state, alpha)
        tl.debug_barrier()  # threads read what other threads wrote
        previous = tl.maximum(tl.load(forward_buffer + 1 + state), low)
        two_before = tl.where(skip, tl.maximum(tl.load(forward_buffer + state), low), low)
        tl.debug_barrier()
        score = tl.load(scores + position * states + state, mask=inside, other=low)
        alpha = tl.maximum(_log_sum_exp(alpha, previous, two_before) + score, low)
        tl.store(posteriors + position * states + state, alpha, mask=inside)
    ends = inside & (state <= last) & (state >= last - 1)
    finals = tl.where(ends, alpha, low)
    best = tl.max(finals)
    total = best + tl.log(tl.sum(tl.exp(finals - best)))
    possible = best > low / 2
    tl.store(result + sentence, tl.where(possible, -total, 0.0))
    beta = tl.where(ends, 0.0, low)
    for back in range(length):
        position = length - 1 - back
        stored_alpha = tl.load(posteriors + position * states + state, mask=inside, other=low)
        posterior = tl.where(possible, tl.exp(tl.minimum(stored_alpha + beta - total, 0.0)), 0.0)
        tl.store(posteriors + position * states + state, posterior, mask=inside)
        score = tl.load(scores + position * states + state, mask=inside, other=low)
        tl.store(backward_buffer + state, tl.maximum(beta + score, low))
        tl.debug_barrier()
        stays = tl.maximum(tl.load(backward_buffer + state), low)
        following = tl.maximum(tl.load(backward_buffer + 1 + state), low)
        two_after = tl.where(skip_to, tl.maximum(tl.load(backward_buffer + 2 + state), low), low)
        tl.debug_barrier()
        beta = tl.maximum(_log_sum_exp(stays, following, two_after), low)


def viterbi(scores: Tensor, skips: Tensor, input_lengths: Tensor, label_lengths: Tensor) -> Tensor:
    """The state at each position of the best path through all labels.

    scores (B, T, K) in float32, skips (B, K), input_lengths and label_lengths (B,) -> (B, T)
    """
    sentences, longest, states = scores.shape
    block = triton.next_power_of_2(states)
    # The scores of all states, after two impossible states.
    totals = scores.new_full((sentences, block + 2), -torch.inf)
    steps = torch.empty(sentences, longest, states, dtype=torch.int8, device=scores.device)
    path = torch.zeros(sentences, longest, dtype=torch.long, device=scores.device)
    _viterbi[(sentences,)](
        *(
            scores.contiguous(),
            skips.contiguous(),
            input_lengths,
            label_lengths,
            totals,
            steps,
            path,
        ),
        *(longest, states),
        block=block,
        num_warps=max(1, min(8, block // 64)),
        enable_fp_fusion=True,
    )
    return path


@triton.jit
def _viterbi(
    scores,
    skips,
    input_lengths,
    label_lengths,
    totals,
    steps,
    path,
    longest,
    states,
    block: tl.constexpr,
):
    """Viterbi: forward with back-pointers, as steps between states, then backtracking."""
    sentence = tl.program_id(0).to(tl.int64)
    length = tl.load(input_lengths + sentence)
    last = 2 * tl.load(label_lengths + sentence)  # the blank after the last label
    state = tl.arange(0, block)
    inside = state < states
    skip = tl.load(skips + sentence * states + state, mask=inside, other=0) != 0
    scores += sentence * longest * states
    steps += sentence * longest * states
    path += sentence * longest
    totals += sentence * (block + 2)
    best = tl.load(scores + state, mask=inside & (state < 2), other=float("-inf"))
    for position in range(1, length):
        tl.store(totals + 2 + state, best)
        tl.debug_barrier()  # threads read what other threads wrote
        previous = tl.load(totals + 1 + state)
        two_before = tl.load(totals + state)
        tl.debug_barrier()
        two_before = tl.where(skip, two_before, float("-inf"))
        step = tl.where(previous > best, 1, 0)
        best = tl.maximum(best, previous)
        step = tl.where(two_before > best, 2, step)
        best = tl.maximum(best, two_before)
        tl.store(steps + position * states + state, step.to(tl.int8), mask=inside)
        score = tl.load(scores + position * states + state, mask=inside, other=float("-inf"))
        best += score
    tl.debug_barrier()
    possible = best > float("-inf")
    ends = possible & (state <= last) & (state >= last - 1)
    value = tl.max(tl.where(ends, best, float("-inf")))
    at_end = tl.min(tl.where(ends & (best == value), state, block))
    furthest = tl.max(tl.where(possible, state, 0))  # with too few positions no end is reached
    current = tl.where(at_end < block, at_end, furthest)
    for back in range(length):
        position = length - 1 - back
        tl.store(path + position, current.to(tl.int64))
        if position > 0:
            current -= tl.load(steps + position * states + current).to(tl.int32)
