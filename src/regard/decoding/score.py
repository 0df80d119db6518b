"""Scoring of translations by forced decoding, and the top tokens at each position."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.data.batch import Batch, ContextBatch
from regard.data.ragged import Ragged
from regard.decoding.backend import IdPair, length_normalized
from regard.decoding.pair_batches import map_pairs_by_length
from regard.decoding.wrappers import average_log_probs
from regard.errors import ConfigError
from regard.layers.ctc import negative_log_likelihood
from regard.models.base import Model
from regard.models.nonautoregressive import CtcPredictions
from regard.models.protocol import Predictions

_CHUNK = 4096  # positions whose logits are computed at once


@torch.inference_mode()
def score_pairs(
    models: Sequence[Model], batch: Batch, *, length_penalty: float = 1.0
) -> list[float]:
    """The score of each pair; with `length_penalty` 1, the mean log-prob of its tokens."""
    lengths = batch.target.lengths.lengths
    if isinstance(batch, ContextBatch):
        lengths = lengths - batch.context_lengths
    log_probs = _sentence_log_probs(models, batch)
    return [
        length_normalized(log_prob, length, length_penalty)
        for log_prob, length in zip(log_probs.tolist(), lengths.tolist(), strict=True)
    ]


@torch.inference_mode()
def pair_token_log_probs(
    models: Sequence[Model], pairs: Sequence[IdPair], device: torch.device
) -> list[list[float]]:
    """The log-prob of each target token and of EOS, by autoregressive models."""

    def on_batch(batch: Batch) -> list[list[float]]:
        log_probs = average_log_probs([token_log_probs(model, batch) for model in models])
        rows = log_probs.cpu().split(batch.target.lengths.host.tolist())
        return [row.tolist() for row in rows]

    refuse_unsupported_scoring(models)
    return map_pairs_by_length(pairs, device, None, on_batch)


def refuse_unsupported_scoring(models: Sequence[Model]) -> None:
    """Raise a ConfigError if a model cannot score given translations."""
    if reason := next(filter(None, (model.scoring_unsupported_reason for model in models)), None):
        raise ConfigError(reason)


def _sentence_log_probs(models: Sequence[Model], batch: Batch) -> Tensor:
    """The log-prob of each target sentence, without its context. (B,)"""
    refuse_unsupported_scoring(models)
    predictions = [model(batch) for model in models]
    if isinstance(predictions[0], CtcPredictions):
        assert len(models) == 1, "ensembles of CTC models are not supported"
        return _ctc_log_probs(predictions[0])
    log_probs = average_log_probs([target_log_probs(prediction) for prediction in predictions])
    if isinstance(batch, ContextBatch):
        log_probs = log_probs.masked_fill(batch.is_context, 0.0)
    return batch.target.lengths.sums(log_probs.double())


def token_log_probs(model: Model, batch: Batch) -> Tensor:
    """The log-prob of each target token, by an autoregressive model. (N,)"""
    return target_log_probs(model(batch))


@torch.inference_mode()
def top_tokens(models: Sequence[Model], batch: Batch, count: int) -> tuple[Tensor, Tensor]:
    """The `count` most probable tokens at each target position, and their probabilities.

    Both are (N, count), best first; the position of EOS is included.
    """
    predictions = [model(batch) for model in models]
    tokens, probabilities = [], []
    for chunk in zip(*(prediction.hidden.split(_CHUNK) for prediction in predictions), strict=True):
        pairs = zip(predictions, chunk, strict=True)
        log_probs = [
            prediction.project(hidden).float().log_softmax(-1) for prediction, hidden in pairs
        ]
        best = average_log_probs(log_probs).topk(count, dim=1)
        tokens.append(best.indices)
        probabilities.append(best.values.exp())
    return torch.cat(tokens), torch.cat(probabilities)


def target_log_probs(predictions: Predictions) -> Tensor:
    """The log-prob of each target token. (N,)"""
    chunks = zip(predictions.hidden.split(_CHUNK), predictions.targets.split(_CHUNK), strict=True)
    log_probs = [
        predictions.project(hidden).float().log_softmax(-1).gather(1, targets[:, None])
        for hidden, targets in chunks
    ]
    return torch.cat(log_probs).squeeze(1)


def _ctc_log_probs(predictions: CtcPredictions) -> Tensor:
    """The log-prob of each target, summed over all its CTC paths. (B,)"""
    assert predictions.lengths is not None
    log_probs = predictions.project(predictions.hidden).float().log_softmax(-1)
    targets = Ragged(predictions.targets, predictions.labels)
    return -negative_log_likelihood(log_probs, predictions.lengths, targets)
