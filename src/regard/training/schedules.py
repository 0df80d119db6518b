"""Learning rates: pure functions of the step (counted from 1), the peak being 1."""

from __future__ import annotations

import math


def warmup(step: int, steps: int) -> float:
    """Linear from 0 to the peak: `i / n`."""
    return min(1.0, step / steps)


def inverse_sqrt(step: int, warmup_steps: int) -> float:
    """`min(t / w, sqrt(w / t))`: with peak `(d w)^-0.5`, the paper's schedule."""
    return min(step / warmup_steps, (warmup_steps / step) ** 0.5)


def cosine(step: int, warmup_steps: int, decay_steps: int) -> float:
    """Warm-up, then half a cosine wave down to zero at `decay_steps`."""
    left = linear(step, warmup_steps, decay_steps)
    return left if step < warmup_steps else 0.5 * (1.0 - math.cos(math.pi * left))


def linear(step: int, warmup_steps: int, decay_steps: int) -> float:
    """Warm-up, then a straight line down to zero at `decay_steps`."""
    if step < warmup_steps or decay_steps <= warmup_steps:
        return warmup(step, warmup_steps)
    return max(0.0, (decay_steps - step) / (decay_steps - warmup_steps))


def constant(step: int, warmup_steps: int) -> float:
    """Warm-up, then the peak for ever."""
    return warmup(step, warmup_steps)


def paper_peak(width: int, warmup_steps: int) -> float:
    """The peak of `d^-0.5 * min(t^-0.5, t * w^-1.5)`, reached at t = w."""
    return float((width * warmup_steps) ** -0.5)
