"""Glancing training (Qian et al., 2021, arXiv:2008.07905) of non-autoregressive models.

The predictions of a first pass are compared with the target: the more of them are wrong, the more
target tokens are given to the decoder in a second pass, at random positions. With CTC, the target
tokens are those of the best path that collapses to the target.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from regard.data.ragged import Ragged
from regard.layers.ctc import best_paths
from regard.models.nonautoregressive import CtcPredictions, Hints
from regard.models.protocol import Predictions
from regard.text.special import SPECIAL
from regard.training.config import TrainingConfig


def glancing_ratio(step: int, config: TrainingConfig) -> float:
    """The glancing ratio of a step, linear from `glancing` to `glancing_end`."""
    progress = min(step / config.max_steps, 1.0)
    return config.glancing + progress * (config.glancing_end - config.glancing)


@torch.no_grad()
def glancing_hints(predictions: Predictions, ratio: Tensor) -> Hints:
    """The target tokens to reveal: per sentence, `ratio` times the number of wrong predictions."""
    assert predictions.lengths is not None
    lengths = predictions.lengths
    logits = predictions.project(predictions.hidden).float()
    tokens = predictions.targets
    if isinstance(predictions, CtcPredictions):
        targets = Ragged(predictions.targets, predictions.labels)
        tokens = best_paths(logits.log_softmax(-1), lengths, targets)
    wrong = torch.zeros(len(lengths), device=logits.device)
    wrong.index_add_(0, lengths.sentence, (logits.argmax(-1) != tokens).float())
    fraction = ratio * wrong / lengths.lengths.clamp(min=1)  # (B,)
    mask = torch.rand_like(logits[:, 0]) < fraction[lengths.sentence]
    return Hints(tokens, mask)


def mask_hinted_targets(predictions: Predictions, hints: Hints) -> Predictions:
    """The predictions without the targets that were revealed, which are not trained on.

    With CTC, positions have no targets of their own, and all are trained on.
    """
    if isinstance(predictions, CtcPredictions):
        return predictions
    return replace(predictions, targets=predictions.targets.masked_fill(hints.mask, SPECIAL.pad))
