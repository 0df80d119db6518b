"""One update of the weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.ragged import Batch
from regard.devices import autocast
from regard.models.transformer import Transformer
from regard.training.config import TrainingConfig
from regard.training.losses import Loss, r_drop, smoothed_cross_entropy, with_choices


@dataclass(frozen=True)
class Update:
    """Sums over the tokens of one update, still on the device."""

    sums: Tensor  # (2,) loss and negative log-likelihood
    tokens: int


def update(
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    batches: Sequence[Batch],
    config: TrainingConfig,
    *,
    step: int,
    rate: float,
) -> Update:
    """Learn from some batches as if they were one."""
    tokens = sum(batch.target_tokens for batch in batches)  # of the whole update, before any part
    device = model.projection.weight.device
    sums = torch.zeros(2, device=device)
    optimizer.zero_grad(set_to_none=True)
    for number, batch in enumerate(batches):
        torch.manual_seed(dropout_seed(config.seed, step, number))
        with autocast(device, config.precision):
            loss = _loss(model, batch.to(device), config)
        (loss.total / tokens).backward()
        sums += torch.stack([loss.total.detach(), loss.nll])
    if config.clip_norm:
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    return Update(sums, tokens)


def _loss(model: Transformer, batch: Batch, config: TrainingConfig) -> Loss:
    if config.r_drop:
        predictions = model(batch.twice())
        loss = r_drop(predictions, config.label_smoothing, config.r_drop)
    else:
        predictions = model(batch)
        loss = smoothed_cross_entropy(predictions, config.label_smoothing)
    return with_choices(loss, predictions)


def dropout_seed(seed: int, step: int, number: int) -> int:
    """Keyed by the place in the run, so that a resumed run drops what it would have dropped."""
    return ((seed * 1_000_003 + step) * 1009 + number) % 2**63
