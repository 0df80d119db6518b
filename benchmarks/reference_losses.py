"""Reference implementations of the losses, by their definitions."""

from __future__ import annotations

from torch import Tensor

from regard.text.special import SPECIAL
from regard.training.loss_chunks import divergence
from regard.training.losses import Loss


def reference_cross_entropy(logits: Tensor, targets: Tensor, smoothing: float) -> Loss:
    """Cross-entropy with label smoothing of logits (N, V) and targets (N,)."""
    real = targets != SPECIAL.pad
    partition = logits.logsumexp(-1)  # (N,)
    nll = (real * (partition - logits.gather(1, targets[:, None]).squeeze(1))).sum()
    if smoothing == 0.0:
        return Loss(nll, nll.detach())
    uniform = (real * (partition - logits.mean(-1))).sum()
    return Loss((1.0 - smoothing) * nll + smoothing * uniform, nll.detach())


def reference_r_drop(logits: Tensor, targets: Tensor, smoothing: float, weight: float) -> Loss:
    """R-Drop of logits (N, V) and targets (N,), the second pass after the first."""
    log_probs = logits.log_softmax(-1)
    loss = reference_cross_entropy(log_probs, targets, smoothing)
    real = targets.chunk(2)[0] != SPECIAL.pad
    divergence_sum = (real * divergence(*log_probs.chunk(2))).sum()
    return Loss(loss.total / 2 + weight / 4 * divergence_sum, loss.nll / 2)
