"""The score of given translations: what the search would have said of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.data.ragged import Batch
from regard.decoding.ensemble import mean_probability
from regard.decoding.hypothesis import normalized
from regard.models.base import Model


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


def _gains(model: Model, batch: Batch) -> Tensor:
    """The log-probability of each target token. (N,)"""
    predictions = model(batch)
    log_probs = predictions.project(predictions.hidden).float().log_softmax(-1)
    return log_probs.gather(1, predictions.targets[:, None]).squeeze(1)
