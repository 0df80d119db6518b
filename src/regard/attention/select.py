"""What becomes of the scores: weights over the keys that a query may see."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Select = Callable[[Tensor, Tensor | None], Tensor]


def soft(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax over the keys; a query that may look nowhere gives weights of zero, not NaN.

    scores (..., T, S), mask broadcast to it, True = may look -> weights (..., T, S)
    """
    if mask is None:
        return scores.softmax(-1)
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    return weights.masked_fill(~mask.any(-1, keepdim=True), 0.0)


def hard(scores: Tensor, mask: Tensor | None) -> Tensor:
    """All weight on the highest score. It has no gradient; see `straight_through`."""
    weights = soft(scores, mask)
    return _all_on(weights.argmax(-1), weights)


def sampled(generator: torch.Generator | None = None) -> Select:
    """All weight on one key, drawn by its softmax. It has no gradient of its own.

    Trained through `straight_through`, or by REINFORCE: see `recorded`.
    """

    def select(scores: Tensor, mask: Tensor | None) -> Tensor:
        weights = soft(scores, mask).detach()
        rows = weights.flatten(0, -2)
        blind = rows.sum(-1, keepdim=True) == 0  # no key to draw; `_all_on` leaves them zero
        drawn = torch.multinomial(rows + blind, 1, generator=generator)
        return _all_on(drawn.view(weights.shape[:-1]), weights)

    return select


def straight_through(select: Select) -> Select:
    """Weights as `select` makes them, gradients as if they were soft (Bengio et al., 2013)."""

    def passing(scores: Tensor, mask: Tensor | None) -> Tensor:
        weights = soft(scores, mask)
        return select(scores, mask).detach() + weights - weights.detach()

    return passing


def recorded(select: Select, log_probs: list[Tensor]) -> Select:
    """As `select`, noting in a list how likely each choice was: (..., T), with gradients."""

    def noting(scores: Tensor, mask: Tensor | None) -> Tensor:
        chosen = select(scores, mask).detach()
        likely = (soft(scores, mask) * chosen).sum(-1)
        blind = chosen.sum(-1) == 0  # where nothing could be chosen, nothing is learned
        log_probs.append(torch.where(blind, 1.0, likely).log())
        return chosen

    return noting


def reinforce(log_probs: Tensor, rewards: Tensor) -> Tensor:
    """REINFORCE (Williams, 1992): a term whose gradient makes choices that paid off likelier.

    The baseline of each example is the mean reward of the others: it takes nothing from the
    expectation, and most of the variance. log_probs (B,), rewards (B,) -> a scalar to minimise
    """
    count = len(rewards)
    rewards = rewards.detach()
    others = (rewards.sum() - rewards) / max(count - 1, 1)
    return -((rewards - others) * log_probs).mean()


def _all_on(places: Tensor, weights: Tensor) -> Tensor:
    """One where a row's place is, zero elsewhere; rows without any weight stay zero."""
    ones = torch.zeros_like(weights).scatter_(-1, places.unsqueeze(-1), 1.0)
    return ones * (weights.sum(-1, keepdim=True) > 0)
