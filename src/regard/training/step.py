"""One update of the weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.ragged import Batch
from regard.devices import autocast
from regard.models.transformer import Transformer
from regard.training.config import TrainingConfig
from regard.training.losses import Loss, r_drop, smoothed_cross_entropy, with_choices
from regard.training.optimizer import set_rate
from regard.training.replay import Recording, Replayed


@dataclass(frozen=True)
class Update:
    """Sums over the tokens of one update, still on the device."""

    sums: Tensor  # (2,) loss and negative log-likelihood
    tokens: int


class Updater:
    """Whatever changes the weights of a model, again and again."""

    def __init__(
        self, model: Transformer, optimizer: torch.optim.Optimizer, config: TrainingConfig
    ) -> None:
        self._model = model
        self._optimizer = optimizer
        self._config = config
        self._device = model.projection.weight.device
        self._tokens = torch.zeros((), device=self._device)
        self._keeps_gradients = False
        self._gradients_of: Callable[[Batch], Tensor] = self._gradients
        self._change: Callable[[], Tensor | None] = self._change_weights

    def replay(self, batch_tokens: int) -> None:
        """From now on, record what the GPU does and replay it; gradients keep their place."""
        for weights in self._model.parameters():
            weights.grad = torch.zeros_like(weights)
        self._keeps_gradients = True
        self._gradients_of = Replayed(
            self._gradients,
            self._device,
            batch_tokens=batch_tokens,
            max_length=self._model.max_length,
        )
        self._change = Recording(self._change_weights, torch.cuda.graph_pool_handle())

    def __call__(self, batches: Sequence[Batch], *, step: int, rate: float) -> Update:
        """Learn from some batches as if they were one."""
        tokens = sum(batch.target_tokens for batch in batches)  # of all, before any of them
        self._tokens.fill_(tokens)
        set_rate(self._optimizer, rate)
        self._optimizer.zero_grad(set_to_none=not self._keeps_gradients)
        sums = torch.zeros(2, device=self._device)
        for number, batch in enumerate(batches):
            torch.manual_seed(dropout_seed(self._config.seed, step, number))
            sums += self._gradients_of(batch)
        self._change()
        return Update(sums, tokens)

    def _gradients(self, batch: Batch) -> Tensor:
        """Add a batch's gradients to those that are there; its sums."""
        with autocast(self._device, self._config.precision):
            loss = _loss(self._model, batch.to(self._device), self._config)
        (loss.total / self._tokens).backward()
        return torch.stack([loss.total.detach(), loss.nll])

    def _change_weights(self) -> None:
        if self._config.clip_norm:
            torch.nn.utils.clip_grad_norm_(self._model.parameters(), self._config.clip_norm)
        self._optimizer.step()


def update(
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    batches: Sequence[Batch],
    config: TrainingConfig,
    *,
    step: int,
    rate: float,
) -> Update:
    """A single update."""
    return Updater(model, optimizer, config)(batches, step=step, rate=rate)


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
