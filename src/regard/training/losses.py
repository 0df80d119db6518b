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
    logits = predictions.project(predictions.hidden).float()  # (N, V)
    partition = logits.logsumexp(-1)  # (N,)
    nll = (partition - logits.gather(1, predictions.targets[:, None]).squeeze(1)).sum()
    if smoothing == 0.0:
        return Loss(nll, nll.detach())
    uniform = (partition - logits.mean(-1)).sum()
    return Loss((1.0 - smoothing) * nll + smoothing * uniform, nll.detach())
