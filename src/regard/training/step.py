"""One update of the weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.data.shapes import Shape
from regard.devices import autocast, is_half
from regard.models.base import Model
from regard.processes import ALONE, Team, keeping_gradients
from regard.recording import Recording, recordable
from regard.training.engine import Engine
from regard.training.objective import Objective
from regard.training.optimizer import set_rate

_MOST = 128  # recordings; each keeps the arguments of its kernels on the GPU
_SIZES = 8  # of batches, up to the largest
_LONGEST = 128  # tokens of a sentence that is replayed: longer ones are rare, and fill a GPU


@dataclass(frozen=True)
class Update:
    """Sums over the tokens of one update, still on the device."""

    sums: Tensor  # (2,) loss and negative log-likelihood
    tokens: int


class Replayed:
    """Work on batches, the same as `work`, recorded once for each shape and then replayed."""

    def __init__(
        self,
        work: Callable[[Batch], Tensor],
        device: torch.device,
        *,
        batch_tokens: int,
        longest: int,
    ) -> None:
        self._work = work
        self._device = device
        self._unit = max(64, batch_tokens // _SIZES)
        self._longest = longest
        self._pool = torch.cuda.graph_pool_handle()
        self._recordings: dict[Shape, tuple[Tensor, Recording[Tensor]]] = {}

    def __call__(self, batch: Batch) -> Tensor:
        """What `work` returns; good until the next call."""
        if max(row.lengths.longest for row in batch.sides) > self._longest:
            return self._work(batch.to(self._device))
        shape = Shape.around(batch, self._unit, self._longest)
        numbers = shape.packed(shape.filled(batch)).pin_memory()
        if shape not in self._recordings:
            if len(self._recordings) == _MOST:
                return self._work(shape.unpacked(numbers.to(self._device, non_blocking=True)))
            empty = torch.empty(len(numbers), dtype=torch.long, device=self._device)
            recording = Recording(lambda: self._work(shape.unpacked(empty)), self._pool)
            self._recordings[shape] = empty, recording
        inputs, recording = self._recordings[shape]
        inputs.copy_(numbers, non_blocking=True)
        return recording()


class Updater:
    """Whatever changes the weights of a model, again and again.

    In a team, each process has its share of all batches, and all make the same change.
    """

    def __init__(
        self,
        model: Model,
        optimizer: torch.optim.Optimizer,
        objective: Objective,
        team: Team = ALONE,
    ) -> None:
        self._model = model
        self._objective, config = objective, objective.config
        self._team = team
        self._learner = team.wrapped(model)
        self._optimizer = optimizer
        self._config = config
        self._device = model.device
        self._half = is_half(self._device, config.precision, model.config.width)
        self._tokens = torch.zeros((), device=self._device)
        self._keeps_gradients = False
        self._gradients_of: Callable[[Batch], Tensor] = self._gradients
        self._change: Callable[[], Tensor | None] = self._change_weights

    @contextmanager
    def as_chosen(self, engine: Engine, batch_tokens: int) -> Iterator[None]:
        """While this lasts, updates are computed as the engine says."""
        if engine.compile:
            for block in self._model.blocks:
                block.compile(dynamic=True)  # once for all shapes, and for all blocks of a kind
        with recordable(self._device) if engine.replay else nullcontext():
            if engine.replay:
                self.replay(batch_tokens)
            yield

    def replay(self, batch_tokens: int) -> None:
        """From now on, record what the GPU does and replay it; gradients keep their place."""
        for weights in self._model.parameters():
            if weights.requires_grad:
                weights.grad = torch.zeros_like(weights)
        self._keeps_gradients = True
        # Running text is cut so that all rows are about as long as they may be.
        longest, most = self._model.config.context or _LONGEST, self._model.max_length
        longest = longest if most is None else min(longest, most)
        self._gradients_of = Replayed(
            self._gradients, self._device, batch_tokens=batch_tokens, longest=longest
        )
        self._change = Recording(self._change_weights, torch.cuda.graph_pool_handle())

    def __call__(self, batches: Sequence[Batch], *, step: int, rate: float) -> Update:
        """Learn from some batches as if they were one."""
        own = sum(batch.target_tokens for batch in batches)
        tokens = int(sum(self._team.gathered(own)))  # of all, before any of them
        self._tokens.fill_(tokens)
        self._objective.start_update(step)
        set_rate(self._optimizer, rate)
        self._optimizer.zero_grad(set_to_none=not self._keeps_gradients)
        sums = torch.zeros(2, dtype=torch.float64, device=self._device)
        for number, batch in enumerate(batches):
            torch.manual_seed(dropout_seed(self._config.seed, step, number, self._team.rank))
            with keeping_gradients(self._learner, number + 1 < len(batches)):
                sums += self._gradients_of(batch)
        self._team.add_up(sums)
        self._change()
        return Update(sums, tokens)

    def _gradients(self, batch: Batch) -> Tensor:
        """Add a batch's gradients to those that are there; its sums."""
        with autocast(self._device, half=self._half):
            loss = self._objective(self._learner, batch.to(self._device))
        # Gradients become the mean over the team, and should be the sum.
        (loss.total / self._tokens * self._team.size).backward()
        return torch.stack([loss.total.detach(), loss.nll])

    def _change_weights(self) -> None:
        if self._config.clip_norm:
            torch.nn.utils.clip_grad_norm_(self._model.parameters(), self._config.clip_norm)
        self._optimizer.step()


def dropout_seed(seed: int, step: int, number: int, rank: int = 0) -> int:
    """Keyed by the place in the run, so that a resumed run drops what it would have dropped."""
    return ((seed * 1_000_003 + step) * 1009 + number + rank * 2**48) % 2**63
