"""What models say of given translations: their scores, and what else was likely at each place."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.data.ragged import Batch
from regard.decoding.ensemble import mean_probability
from regard.decoding.hypothesis import normalized
from regard.models.base import Model

_ROWS = 1024


@torch.inference_mode()
def scores(models: Sequence[Model], batch: Batch, *, length_penalty: float = 1.0) -> list[float]:
    """One score for each pair: the mean log-probability when the penalty is 1."""
    gains = mean_probability([_gains(model, batch) for model in models])
    lengths = batch.target.lengths
    totals = torch.zeros(len(lengths), device=gains.device, dtype=torch.float64)
    totals.index_add_(0, lengths.sentence, gains.double())
    return [
        normalized(total, length, length_penalty)
        for total, length in zip(totals.tolist(), lengths.lengths.tolist(), strict=True)
    ]


@torch.inference_mode()
def likeliest(models: Sequence[Model], batch: Batch, count: int) -> tuple[Tensor, Tensor]:
    """The `count` likeliest words at each place of the targets, and their probabilities.

    Both are (N, count), best first; a target's end is a place, too.
    """
    found = [model(batch) for model in models]
    words, probabilities = [], []
    for rows in zip(*(one.hidden.split(_ROWS) for one in found), strict=True):
        scored = zip(found, rows, strict=True)  # never all logits at once
        logs = [one.project(hidden).float().log_softmax(-1) for one, hidden in scored]
        best = mean_probability(logs).topk(count, dim=1)
        words.append(best.indices)
        probabilities.append(best.values.exp())
    return torch.cat(words), torch.cat(probabilities)


def _gains(model: Model, batch: Batch) -> Tensor:
    """The log-probability of each target token. (N,)"""
    predictions = model(batch)
    log_probs = predictions.project(predictions.hidden).float().log_softmax(-1)
    return log_probs.gather(1, predictions.targets[:, None]).squeeze(1)
