"""One update of the weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.data.ragged import Batch
from regard.devices import autocast
from regard.processes import ALONE, Team, keeping_gradients
from regard.training.config import TrainingConfig
from regard.training.losses import Loss, r_drop, smoothed_cross_entropy, with_choices


@dataclass(frozen=True)
class Update:
    """Sums over the tokens of one update, still on the device."""

    sums: Tensor  # (2,) loss and negative log-likelihood
    tokens: int


def update(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Sequence[Batch],
    config: TrainingConfig,
    *,
    step: int,
    rate: float,
    team: Team = ALONE,
) -> Update:
    """Learn from some batches, and from what the rest of the team has of them, as if all were one.

    The model is that of `team.wrapped`.
    """
    own = sum(batch.target_tokens for batch in batches)
    tokens = int(sum(team.gathered(own)))  # of the whole update, before any part
    device = next(model.parameters()).device
    sums = torch.zeros(2, dtype=torch.float64, device=device)
    optimizer.zero_grad(set_to_none=True)
    for number, batch in enumerate(batches):
        torch.manual_seed(dropout_seed(config.seed, step, number, team.rank))
        with keeping_gradients(model, number + 1 < len(batches)):
            with autocast(device, config.precision):
                loss = _loss(model, batch.to(device), config)
            # Gradients become the mean over the team, and should be the sum.
            (loss.total * _weight(batch) / tokens * team.size).backward()
        sums += torch.stack([loss.total.detach(), loss.nll]) * _weight(batch)
    team.add_up(sums)
    if config.clip_norm:
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    return Update(sums, tokens)


def _weight(batch: Batch) -> float:
    """A batch of nothing but filler counts nothing, whatever is said of it."""
    return 1.0 if batch.target_tokens else 0.0


def _loss(model: nn.Module, batch: Batch, config: TrainingConfig) -> Loss:
    if config.r_drop:
        predictions = model(batch.twice())
        loss = r_drop(predictions, config.label_smoothing, config.r_drop)
    else:
        predictions = model(batch)
        loss = smoothed_cross_entropy(predictions, config.label_smoothing)
    return with_choices(loss, predictions)


def dropout_seed(seed: int, step: int, number: int, rank: int = 0) -> int:
    """Keyed by the place in the run, so that a resumed run drops what it would have dropped."""
    return ((seed * 1_000_003 + step) * 1009 + number + rank * 2**48) % 2**63
