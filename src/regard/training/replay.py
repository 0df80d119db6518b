"""A GPU's work on batches, recorded once for each of their shapes and replayed from then on."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.data.shapes import Shape
from regard.recording import Recording

_MOST = 128  # recordings; each keeps the arguments of its kernels on the GPU
_SIZES = 8  # of batches, up to the largest


class Replayed:
    """Work on batches, the same as `work`, by recordings where that can be."""

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
        if shape not in self._recordings and len(self._recordings) == _MOST:
            return self._work(shape.unpacked(numbers.to(self._device, non_blocking=True)))
        inputs, recording = self._recording(shape, len(numbers))
        inputs.copy_(numbers, non_blocking=True)
        return recording()

    def _recording(self, shape: Shape, size: int) -> tuple[Tensor, Recording[Tensor]]:
        if shape not in self._recordings:
            inputs = torch.empty(size, dtype=torch.long, device=self._device)
            recording = Recording(lambda: self._work(shape.unpacked(inputs)), self._pool)
            self._recordings[shape] = inputs, recording
        return self._recordings[shape]
