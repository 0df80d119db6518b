"""CTC on a GPU, all paths or the best one: a program for each sentence, none for each place.

Triton has to be there, so whoever takes this imports it late.
"""

# Not `from __future__ import annotations`: Triton reads `tl.constexpr` out of the annotations.
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


def all_paths(
    scores: Tensor, states: Tensor, skips: Tensor, places: Tensor, labels: Tensor
) -> Tensor:
    """The negative log-probability of all paths through all labels; 0 where there is none.

    scores (B, T, K) in float32, states and skips (B, K), places and labels (B,) -> (B,)
    """
    found: Tensor = _AllPaths.apply(scores, states, skips, places, labels)
    return found


class _AllPaths(torch.autograd.Function):
    """The chance of each state at each place is made at once, forward and back again."""

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, states: Tensor, skips: Tensor, places: Tensor, labels: Tensor
    ) -> Tensor:
        sentences, longest, count = scores.shape
        block = triton.next_power_of_2(count)
        beside = scores.new_full((2, sentences, block + 4), -torch.inf)
        chances = torch.zeros_like(scores)
        found = scores.new_zeros(sentences)
        _all_paths[(sentences,)](
            *(scores.contiguous(), skips.contiguous(), places, labels, beside[0], beside[1]),
            *(chances, found, longest, count),
            block=block,
            num_warps=max(1, min(8, block // 64)),
            enable_fp_fusion=True,  # as Triton always did; unsaid, newer versions warn of a change
        )
        ctx.save_for_backward(chances, states)
        return found

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        chances, states = ctx.saved_tensors
        # Equal states have one score: all of its gradient goes to the first of them, or their
        # order would count when they are added up.
        same = states[:, :, None] == states[:, None, :]
        first = same.float().argmax(2)  # (B, K)
        places = torch.arange(states.shape[1], device=states.device)
        share = (first[:, :, None] == places).float()
        return -(chances @ share) * gradients[0][:, None, None], None, None, None, None


@triton.jit
def _log_of_sum(one, two, three):
    """The logarithm of the sum of exponentials."""
    top = tl.maximum(one, tl.maximum(two, three))
    return top + tl.log(tl.exp(one - top) + tl.exp(two - top) + tl.exp(three - top))


@triton.jit
def _all_paths(
    scores,
    skips,
    places,
    labels,
    before,
    behind,
    chances,
    result,
    longest,
    states,
    block: tl.constexpr,
):
    """How likely each state is reached, forward; then how likely its sentence ends well, back."""
    sentence = tl.program_id(0).to(tl.int64)
    length = tl.load(places + sentence)
    last = 2 * tl.load(labels + sentence)  # the blank after the last label
    state = tl.arange(0, block)
    inside = state < states
    low = -1e30
    skip = tl.load(skips + sentence * states + state, mask=inside, other=0) != 0
    skip_to = tl.load(skips + sentence * states + state + 2, mask=state + 2 < states, other=0) != 0
    scores += sentence * longest * states
    chances += sentence * longest * states
    before += sentence * (block + 4)
    behind += sentence * (block + 4)
    reached = tl.load(scores + state, mask=inside & (state < 2), other=low)
    tl.store(chances + state, reached, mask=inside)
    for place in range(1, length):
        tl.store(before + 2 + state, reached)
        tl.debug_barrier()  # neighbours read what others wrote
        one = tl.maximum(tl.load(before + 1 + state), low)
        two = tl.where(skip, tl.maximum(tl.load(before + state), low), low)
        tl.debug_barrier()
        score = tl.load(scores + place * states + state, mask=inside, other=low)
        reached = tl.maximum(_log_of_sum(reached, one, two) + score, low)
        tl.store(chances + place * states + state, reached, mask=inside)
    ends = inside & (state <= last) & (state >= last - 1)
    finals = tl.where(ends, reached, low)
    best = tl.max(finals)
    total = best + tl.log(tl.sum(tl.exp(finals - best)))
    possible = best > low / 2
    tl.store(result + sentence, tl.where(possible, -total, 0.0))
    rest = tl.where(ends, 0.0, low)
    for back in range(length):
        place = length - 1 - back
        there = tl.load(chances + place * states + state, mask=inside, other=low)
        chance = tl.where(possible, tl.exp(tl.minimum(there + rest - total, 0.0)), 0.0)
        tl.store(chances + place * states + state, chance, mask=inside)
        score = tl.load(scores + place * states + state, mask=inside, other=low)
        tl.store(behind + state, tl.maximum(rest + score, low))
        tl.debug_barrier()
        stays = tl.maximum(tl.load(behind + state), low)
        one = tl.maximum(tl.load(behind + 1 + state), low)
        two = tl.where(skip_to, tl.maximum(tl.load(behind + 2 + state), low), low)
        tl.debug_barrier()
        rest = tl.maximum(_log_of_sum(stays, one, two), low)


def best_states(scores: Tensor, skips: Tensor, places: Tensor, labels: Tensor) -> Tensor:
    """The state at each place of the likeliest path through all labels.

    scores (B, T, K) in float32, skips (B, K), places and labels (B,) -> (B, T)
    """
    sentences, longest, states = scores.shape
    block = triton.next_power_of_2(states)
    # What was reached, with room for two states before the first, where nobody ever is.
    reached = scores.new_full((sentences, block + 2), -torch.inf)
    steps = torch.empty(sentences, longest, states, dtype=torch.int8, device=scores.device)
    path = torch.zeros(sentences, longest, dtype=torch.long, device=scores.device)
    _best_states[(sentences,)](
        *(scores.contiguous(), skips.contiguous(), places, labels, reached, steps, path),
        *(longest, states),
        block=block,
        num_warps=max(1, min(8, block // 64)),
        enable_fp_fusion=True,
    )
    return path


@triton.jit
def _best_states(
    scores, skips, places, labels, reached, steps, path, longest, states, block: tl.constexpr
):
    """Forward from place to place, noting how far each state lies behind; then back again."""
    sentence = tl.program_id(0).to(tl.int64)
    length = tl.load(places + sentence)
    last = 2 * tl.load(labels + sentence)  # the blank after the last label
    state = tl.arange(0, block)
    inside = state < states
    skip = tl.load(skips + sentence * states + state, mask=inside, other=0) != 0
    scores += sentence * longest * states
    steps += sentence * longest * states
    path += sentence * longest
    reached += sentence * (block + 2)
    best = tl.load(scores + state, mask=inside & (state < 2), other=float("-inf"))
    for place in range(1, length):
        tl.store(reached + 2 + state, best)
        tl.debug_barrier()  # neighbours read what others wrote
        before = tl.load(reached + 1 + state)
        two_before = tl.load(reached + state)
        tl.debug_barrier()
        two_before = tl.where(skip, two_before, float("-inf"))
        step = tl.where(before > best, 1, 0)
        best = tl.maximum(best, before)
        step = tl.where(two_before > best, 2, step)
        best = tl.maximum(best, two_before)
        tl.store(steps + place * states + state, step.to(tl.int8), mask=inside)
        found = tl.load(scores + place * states + state, mask=inside, other=float("-inf"))
        best += found
    tl.debug_barrier()
    possible = best > float("-inf")
    ends = possible & (state <= last) & (state >= last - 1)
    value = tl.max(tl.where(ends, best, float("-inf")))
    at_end = tl.min(tl.where(ends & (best == value), state, block))
    furthest = tl.max(tl.where(possible, state, 0))  # with too few places no end is reached
    now = tl.where(at_end < block, at_end, furthest)
    for back in range(length):
        place = length - 1 - back
        tl.store(path + place, now.to(tl.int64))
        if place > 0:
            now -= tl.load(steps + place * states + now).to(tl.int32)
