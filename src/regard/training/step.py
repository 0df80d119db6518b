"""One training step: forward, backward and optimizer step, eager or captured in CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.cuda_graphs import CapturedStep, capture_stream
from regard.data.batch import Batch
from regard.data.shapes import BatchShape
from regard.devices import autocast, uses_bfloat16
from regard.distributed import SINGLE_PROCESS, DistributedContext, no_gradient_sync
from regard.models.base import Model
from regard.training.execution_plan import ExecutionPlan
from regard.training.objective import Objective
from regard.training.optimizer import set_learning_rate

_MAX_GRAPHS = 128  # each keeps the arguments of its kernels on the GPU
_NUM_BUCKETS = 8  # of batch sizes, up to the largest batch
_MAX_CAPTURED_LENGTH = 128  # tokens of a sentence: longer ones are rare and saturate a GPU


@dataclass(frozen=True)
class Update:
    """The result of an update: sums over its tokens, on the device."""

    sums: Tensor  # (2,) loss and negative log-likelihood
    tokens: int


class CapturedPerShape:
    """A function of batches, captured in a CUDA graph for each batch shape and replayed."""

    def __init__(
        self,
        function: Callable[[Batch], Tensor],
        device: torch.device,
        *,
        batch_tokens: int,
        max_length: int,
    ) -> None:
        self._function = function
        self._device = device
        self._bucket_size = max(64, batch_tokens // _NUM_BUCKETS)
        self._max_length = max_length
        self._pool = torch.cuda.graph_pool_handle()
        self._captured: dict[BatchShape, tuple[Tensor, CapturedStep[Tensor]]] = {}

    def __call__(self, batch: Batch) -> Tensor:
        """The result of the function, which the next call overwrites."""
        if max(row.lengths.longest for row in batch.sides) > self._max_length:
            return self._function(batch.to(self._device))
        shape = BatchShape.bucket(batch, self._bucket_size, self._max_length)
        packed = shape.pack(shape.filled(batch)).pin_memory()
        if shape not in self._captured:
            if len(self._captured) == _MAX_GRAPHS:
                return self._function(shape.unpack(packed.to(self._device, non_blocking=True)))
            buffer = torch.empty(len(packed), dtype=torch.long, device=self._device)
            captured = CapturedStep(lambda: self._function(shape.unpack(buffer)), self._pool)
            self._captured[shape] = buffer, captured
        inputs, captured = self._captured[shape]
        inputs.copy_(packed, non_blocking=True)
        return captured()


class Updater:
    """Runs training steps on a model.

    With several processes, each has a shard of every batch, and all make the same update.
    """

    def __init__(
        self,
        model: Model,
        optimizer: torch.optim.Optimizer,
        objective: Objective,
        distributed: DistributedContext = SINGLE_PROCESS,
    ) -> None:
        self._model = model
        self._objective, config = objective, objective.config
        self._distributed = distributed
        self._wrapped_model = distributed.wrap_model(model)
        self._optimizer = optimizer
        self._config = config
        self._device = model.device
        self._bfloat16 = uses_bfloat16(self._device, config.precision, model.config.d_model)
        self._tokens = torch.zeros((), device=self._device)
        self._has_gradient_buffers = False
        self._backward: Callable[[Batch], Tensor] = self._eager_backward
        self._optimizer_step: Callable[[], None] = self._eager_optimizer_step

    @contextmanager
    def use_plan(self, plan: ExecutionPlan, batch_tokens: int) -> Iterator[None]:
        """Run updates according to an execution plan within this context."""
        if plan.compile:
            for block in self._model.blocks:
                block.compile(dynamic=True)  # once for all shapes and all equal blocks
        with capture_stream(self._device) if plan.cuda_graphs else nullcontext():
            if plan.cuda_graphs:
                self.capture(batch_tokens)
            yield

    def capture(self, batch_tokens: int) -> None:
        """Use CUDA graphs from now on; gradients are accumulated in fixed buffers."""
        for weights in self._model.parameters():
            if weights.requires_grad:
                weights.grad = torch.zeros_like(weights)
        self._has_gradient_buffers = True
        # Rows of plain text have about the length of the context.
        length, limit = self._model.config.context or _MAX_CAPTURED_LENGTH, self._model.max_length
        max_length = length if limit is None else min(length, limit)
        self._backward = CapturedPerShape(
            self._eager_backward, self._device, batch_tokens=batch_tokens, max_length=max_length
        )
        self._optimizer_step = CapturedStep(
            self._eager_optimizer_step, torch.cuda.graph_pool_handle()
        )

    def __call__(self, batches: Sequence[Batch], *, step: int, rate: float) -> Update:
        """One update with the gradients of all batches, accumulated."""
        local_tokens = sum(batch.target_tokens for batch in batches)
        tokens = int(sum(self._distributed.all_gather(local_tokens)))  # the divisor of all losses
        self._tokens.fill_(tokens)
        self._objective.start_update(step)
        set_learning_rate(self._optimizer, rate)
        self._optimizer.zero_grad(set_to_none=not self._has_gradient_buffers)
        sums = torch.zeros(2, dtype=torch.float64, device=self._device)
        for number, batch in enumerate(batches):
            torch.manual_seed(dropout_seed(self._config.seed, step, number, self._distributed.rank))
            with no_gradient_sync(self._wrapped_model, number + 1 < len(batches)):
                sums += self._backward(batch)
        self._distributed.all_reduce(sums)
        self._optimizer_step()
        return Update(sums, tokens)

    def _eager_backward(self, batch: Batch) -> Tensor:
        """Accumulate the gradients of a batch; returns the sums of its losses. (2,)"""
        with autocast(self._device, enabled=self._bfloat16):
            loss = self._objective(self._wrapped_model, batch.to(self._device))
        # DistributedDataParallel averages gradients, and they should be summed.
        (loss.total / self._tokens * self._distributed.world_size).backward()
        return torch.stack([loss.total.detach(), loss.nll])

    def _eager_optimizer_step(self) -> None:
        if self._config.max_grad_norm:
            torch.nn.utils.clip_grad_norm_(self._model.parameters(), self._config.max_grad_norm)
        self._optimizer.step()


def dropout_seed(seed: int, step: int, number: int, rank: int = 0) -> int:
    """The seed of a batch's dropout, a function of its position: a resumed run draws the same."""
    return ((seed * 1_000_003 + step) * 1009 + number + rank * 2**48) % 2**63
