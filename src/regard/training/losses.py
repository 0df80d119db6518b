"""What is minimised: sums over real tokens, divided once by the tokens of the whole update."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from regard.models.protocol import Predictions


@dataclass(frozen=True)
class Loss:
    """Sums over the tokens of a batch."""

    total: Tensor  # what is minimised
    nll: Tensor  # without smoothing: what perplexity is made of


def smoothed_cross_entropy(predictions: Predictions, smoothing: float) -> Loss:
    """Cross-entropy with targets that keep `1 - smoothing` and spread the rest over all words."""
    return _smoothed(_logits(predictions), predictions.targets, smoothing)


def r_drop(predictions: Predictions, smoothing: float, weight: float) -> Loss:
    """For a batch that went through twice: the mean of both losses, and how far they disagree.

    R-Drop (Liang et al., 2021, arXiv:2106.14448) adds `weight / 2 * (KL(p || q) + KL(q || p))` to
    the sum of both losses; this is half of that, so that it compares with a single pass.
    """
    log_probs = _logits(predictions).log_softmax(-1)
    both = _smoothed(log_probs, predictions.targets, smoothing)
    first, second = log_probs.chunk(2)
    return Loss(both.total / 2 + weight / 4 * divergence(first, second), both.nll / 2)


def divergence(log_p: Tensor, log_q: Tensor) -> Tensor:
    """`KL(p || q) + KL(q || p)`, summed over all rows: `sum (p - q) (log p - log q)`."""
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum()


def _logits(predictions: Predictions) -> Tensor:
    return predictions.project(predictions.hidden).float()  # (N, V)


def _smoothed(logits: Tensor, targets: Tensor, smoothing: float) -> Loss:
    partition = logits.logsumexp(-1)  # (N,)
    nll = (partition - logits.gather(1, targets[:, None]).squeeze(1)).sum()
    if smoothing == 0.0:
        return Loss(nll, nll.detach())
    uniform = (partition - logits.mean(-1)).sum()
    return Loss((1.0 - smoothing) * nll + smoothing * uniform, nll.detach())
