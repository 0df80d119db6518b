"""The losses of tokens by their definitions, which the fast ways are compared with."""

from __future__ import annotations

from torch import Tensor

from regard.text.special import SPECIAL
from regard.training.loss_chunks import divergence
from regard.training.losses import Loss


def plain_cross_entropy(logits: Tensor, targets: Tensor, smoothing: float) -> Loss:
    """The definition of cross-entropy with smoothing: logits (N, V), targets (N,)."""
    real = targets != SPECIAL.pad
    partition = logits.logsumexp(-1)  # (N,)
    nll = (real * (partition - logits.gather(1, targets[:, None]).squeeze(1))).sum()
    if smoothing == 0.0:
        return Loss(nll, nll.detach())
    uniform = (real * (partition - logits.mean(-1))).sum()
    return Loss((1.0 - smoothing) * nll + smoothing * uniform, nll.detach())


def plain_r_drop(logits: Tensor, targets: Tensor, smoothing: float, weight: float) -> Loss:
    """The definition of R-Drop: logits (N, V), targets (N,), the second pass after the first."""
    log_probs = logits.log_softmax(-1)
    both = plain_cross_entropy(log_probs, targets, smoothing)
    real = targets.chunk(2)[0] != SPECIAL.pad
    apart = (real * divergence(*log_probs.chunk(2))).sum()
    return Loss(both.total / 2 + weight / 4 * apart, both.nll / 2)
