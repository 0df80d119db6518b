"""What models say of given translations: their scores, and what else was likely at each place."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.data.ragged import Ragged
from regard.decoding.engine import normalized
from regard.decoding.wrappers import mean_probability
from regard.errors import ConfigError
from regard.layers.ctc import negative_log_likelihood
from regard.models.base import Model
from regard.models.nonautoregressive import CtcPredictions
from regard.models.protocol import Predictions

_ROWS = 1024


@torch.inference_mode()
def scores(models: Sequence[Model], batch: Batch, *, length_penalty: float = 1.0) -> list[float]:
    """One score for each pair: the mean log-probability when the penalty is 1."""
    lengths = batch.target.lengths
    totals = _totals(models, batch)
    return [
        normalized(total, length, length_penalty)
        for total, length in zip(totals.tolist(), lengths.lengths.tolist(), strict=True)
    ]


def _totals(models: Sequence[Model], batch: Batch) -> Tensor:
    """The log-probability of each target sentence. (B,)"""
    if obstacle := next(filter(None, (model.obstacle_to_score for model in models)), None):
        raise ConfigError(obstacle)
    predicted = [model(batch) for model in models]
    if isinstance(predicted[0], CtcPredictions):
        assert len(models) == 1, "there are no ensembles of such models"
        return _any_path(predicted[0])
    gains = mean_probability([gains_of(predictions) for predictions in predicted])
    return batch.target.lengths.sums(gains.double())


def token_gains(model: Model, batch: Batch) -> Tensor:
    """The log-probability of each target token, for a model that writes word by word. (N,)"""
    return gains_of(model(batch))


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


def gains_of(predictions: Predictions) -> Tensor:
    """The log-probability of each target token. (N,)"""
    log_probs = predictions.project(predictions.hidden).float().log_softmax(-1)
    return log_probs.gather(1, predictions.targets[:, None]).squeeze(1)


def _any_path(predictions: CtcPredictions) -> Tensor:
    """The log-probability of all paths together that read as each target. (B,)"""
    assert predictions.lengths is not None
    log_probs = predictions.project(predictions.hidden).float().log_softmax(-1)
    targets = Ragged(predictions.targets, predictions.labels)
    return -negative_log_likelihood(log_probs, predictions.lengths, targets)
