"""The best path of CTC on a GPU: one program for each sentence, instead of kernels for each place.

Triton has to be there, so whoever takes this imports it late.
"""

# Not `from __future__ import annotations`: Triton reads `tl.constexpr` out of the annotations.
import torch
import triton
import triton.language as tl
from torch import Tensor


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
