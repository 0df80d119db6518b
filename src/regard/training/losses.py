"""What is minimised: sums over real tokens, divided once by the tokens of the whole update.

A target that is `SPECIAL.pad` fills a shape, and has no part in any loss.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.attention.select import reinforce
from regard.devices import has_triton
from regard.models.protocol import Predictions
from regard.text.special import SPECIAL


@dataclass(frozen=True)
class Loss:
    """Sums over the tokens of a batch."""

    total: Tensor  # what is minimised
    nll: Tensor  # without smoothing: what perplexity is made of


def smoothed_cross_entropy(predictions: Predictions, smoothing: float) -> Loss:
    """Cross-entropy with targets that keep `1 - smoothing` and spread the rest over all words."""
    logits = predictions.project(predictions.hidden)  # (N, V)
    if _has_kernel(logits):
        return _fused(logits, predictions.targets, smoothing, None)
    return plain_cross_entropy(logits.float(), predictions.targets, smoothing)


def r_drop(predictions: Predictions, smoothing: float, weight: float) -> Loss:
    """For a batch that went through twice: the mean of both losses, and how far they disagree.

    R-Drop (Liang et al., 2021, arXiv:2106.14448) adds `weight / 2 * (KL(p || q) + KL(q || p))` to
    the sum of both losses; this is half of that, so that it compares with a single pass.
    """
    logits = predictions.project(predictions.hidden)  # (N, V)
    if _has_kernel(logits):
        return _fused(logits, predictions.targets, smoothing, weight)
    return plain_r_drop(logits.float(), predictions.targets, smoothing, weight)


@torch.no_grad()
def sentence_rewards(predictions: Predictions) -> Tensor:
    """The log-probability of each sentence: what hard attention's choices are judged by. (B,)"""
    assert predictions.lengths is not None
    logits = predictions.project(predictions.hidden).float()
    gains = logits.log_softmax(-1).gather(1, predictions.targets[:, None]).squeeze(1)
    rewards = torch.zeros(len(predictions.lengths), device=gains.device)
    return rewards.index_add_(0, predictions.lengths.sentence, gains)


def with_choices(loss: Loss, predictions: Predictions) -> Loss:
    """The loss, and REINFORCE for what was drawn on the way to it, if anything was."""
    if predictions.choices is None:
        return loss
    term = reinforce(predictions.choices, sentence_rewards(predictions))
    return Loss(loss.total + len(predictions.choices) * term, loss.nll)


def plain_cross_entropy(logits: Tensor, targets: Tensor, smoothing: float) -> Loss:
    """The definition of `smoothed_cross_entropy`: logits (N, V), targets (N,)."""
    real = targets != SPECIAL.pad
    partition = logits.logsumexp(-1)  # (N,)
    nll = (real * (partition - logits.gather(1, targets[:, None]).squeeze(1))).sum()
    if smoothing == 0.0:
        return Loss(nll, nll.detach())
    uniform = (real * (partition - logits.mean(-1))).sum()
    return Loss((1.0 - smoothing) * nll + smoothing * uniform, nll.detach())


def plain_r_drop(logits: Tensor, targets: Tensor, smoothing: float, weight: float) -> Loss:
    """The definition of `r_drop`: logits (N, V), targets (N,), the second pass after the first."""
    log_probs = logits.log_softmax(-1)
    both = plain_cross_entropy(log_probs, targets, smoothing)
    real = targets.chunk(2)[0] != SPECIAL.pad
    apart = (real * divergence(*log_probs.chunk(2))).sum()
    return Loss(both.total / 2 + weight / 4 * apart, both.nll / 2)


def divergence(log_p: Tensor, log_q: Tensor) -> Tensor:
    """`KL(p || q) + KL(q || p)` of each row: `sum (p - q) (log p - log q)`. (N, V) -> (N,)"""
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(-1)


def _fused(logits: Tensor, targets: Tensor, smoothing: float, weight: float | None) -> Loss:
    """The same in one pass over the logits, which stay in half precision."""
    from regard.training.loss_kernel import fused_loss

    return Loss(*fused_loss(logits, targets, smoothing, weight))


def _has_kernel(logits: Tensor) -> bool:
    return logits.is_cuda and has_triton()
