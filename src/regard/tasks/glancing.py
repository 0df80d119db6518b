"""Glancing (Qian et al., 2021, arXiv:2008.07905): who writes all words at once is shown some.

A first pass is compared with the target: the more of it is wrong, the more words the second pass is
shown, at places drawn by chance. So it learns to complete first what it cannot yet write alone.
With CTC, the words are those of the likeliest path that reads as the target.
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
    """From `glancing` down to `glancing_end`, by the same amount at each update."""
    done = min(step / config.max_steps, 1.0)
    return config.glancing + done * (config.glancing_end - config.glancing)


@torch.no_grad()
def glanced(predictions: Predictions, ratio: Tensor) -> Hints:
    """What to show after a first pass: a share of each sentence, `ratio` of what is wrong in it."""
    assert predictions.lengths is not None
    lengths = predictions.lengths
    logits = predictions.project(predictions.hidden).float()
    wanted = predictions.targets
    if isinstance(predictions, CtcPredictions):
        targets = Ragged(predictions.targets, predictions.labels)
        wanted = best_paths(logits.log_softmax(-1), lengths, targets)
    wrong = torch.zeros(len(lengths), device=logits.device)
    wrong.index_add_(0, lengths.sentence, (logits.argmax(-1) != wanted).float())
    share = ratio * wrong / lengths.lengths.clamp(min=1)  # of each sentence; (B,)
    given = torch.rand_like(logits[:, 0]) < share[lengths.sentence]
    return Hints(wanted, given)


def unseen(predictions: Predictions, hints: Hints) -> Predictions:
    """The same, where nothing is learned from words that were shown.

    With CTC no place has a word of its own, and all are learned from.
    """
    if isinstance(predictions, CtcPredictions):
        return predictions
    return replace(predictions, targets=predictions.targets.masked_fill(hints.given, SPECIAL.pad))
