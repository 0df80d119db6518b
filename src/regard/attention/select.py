"""Selection: from attention scores to attention weights, soft or hard."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Select = Callable[[Tensor, Tensor | None], Tensor]


def soft(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax over the keys; the weights of a fully masked query are zero, not NaN.

    scores (..., T, S), mask broadcast to it, True = visible -> weights (..., T, S)
    """
    if mask is None:
        return scores.softmax(-1)
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    return weights.masked_fill(~mask.any(-1, keepdim=True), 0.0)


def hard(scores: Tensor, mask: Tensor | None) -> Tensor:
    """One-hot weights of the highest score. They have no gradient; see `straight_through`."""
    weights = soft(scores, mask)
    return _one_hot(weights.argmax(-1), weights)


def sampled(generator: torch.Generator | None = None) -> Select:
    """One-hot weights of a key sampled from the softmax. They have no gradient.

    Train with `straight_through`, or with REINFORCE: see `with_log_probs`.
    """

    def select(scores: Tensor, mask: Tensor | None) -> Tensor:
        weights = soft(scores, mask).detach()
        rows = weights.flatten(0, -2)
        masked = rows.sum(-1, keepdim=True) == 0  # no key to sample; `_one_hot` keeps them zero
        samples = torch.multinomial(rows + masked, 1, generator=generator)
        return _one_hot(samples.view(weights.shape[:-1]), weights)

    return select


def straight_through(select: Select) -> Select:
    """The weights of `select` with the gradient of softmax (Bengio et al., 2013)."""

    def estimate(scores: Tensor, mask: Tensor | None) -> Tensor:
        weights = soft(scores, mask)
        return select(scores, mask).detach() + weights - weights.detach()

    return estimate


def with_log_probs(select: Select, log_probs: list[Tensor]) -> Select:
    """`select` that appends the log-probs of its selections, (..., T), to a list for REINFORCE."""

    def record(scores: Tensor, mask: Tensor | None) -> Tensor:
        selected = select(scores, mask).detach()
        probs = (soft(scores, mask) * selected).sum(-1)
        masked = selected.sum(-1) == 0  # nothing was selected: log-prob 0, without gradient
        log_probs.append(torch.where(masked, 1.0, probs).log())
        return selected

    return record


def reinforce(log_probs: Tensor, rewards: Tensor) -> Tensor:
    """The REINFORCE loss (Williams, 1992) of sampled selections.

    The baseline of each example is the mean reward of the others, which reduces the variance
    without a bias. log_probs (B,), rewards (B,) -> a scalar to minimize
    """
    count = len(rewards)
    rewards = rewards.detach()
    baselines = (rewards.sum() - rewards) / max(count - 1, 1)
    return -((rewards - baselines) * log_probs).mean()


def _one_hot(indices: Tensor, weights: Tensor) -> Tensor:
    """One-hot rows; rows whose weights are all zero stay zero."""
    ones = torch.zeros_like(weights).scatter_(-1, indices.unsqueeze(-1), 1.0)
    return ones * (weights.sum(-1, keepdim=True) > 0)
