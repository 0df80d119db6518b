"""A GPU's work, recorded once for each shape of batch and replayed from then on.

An update of a small model is a thousand short kernels, and asking for them one by one takes Python
longer than running them takes the GPU. A recording (a CUDA graph) asks for all of them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from regard.data.ragged import Batch
from regard.data.shapes import Shape

_MOST = 128  # recordings; each keeps the arguments of its kernels on the GPU
_LONGEST = 128  # tokens of a sentence: longer ones are rare, and fill the GPU by themselves
_SIZES = 8  # of batches, up to the largest


@contextmanager
def recordable(device: torch.device) -> Iterator[None]:
    """A stream of its own for all work, since nothing can be recorded on the usual one."""
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream(device).wait_stream(stream)


class Recording:
    """Some work without arguments, done once as it is, then recorded, then replayed."""

    def __init__(self, work: Callable[[], Tensor | None], pool: Any) -> None:
        self._work = work
        self._pool = pool
        self._runs = 0
        self._graph = torch.cuda.CUDAGraph()
        self._result: Tensor | None = None

    def __call__(self) -> Tensor | None:
        """Do the work. What it returns is good until the next time."""
        self._runs += 1
        if self._runs == 1:  # kernels are compiled, libraries wake up: none of that can be recorded
            return self._work()
        if self._runs == 2:
            self._record()
        self._graph.replay()
        return self._result

    def _record(self) -> None:
        # Threads that prepare the next batches may go on meanwhile.
        self._graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
        try:
            self._result = self._work()
        finally:
            self._graph.capture_end()


class Replayed:
    """Work on batches, the same as `work`, by recordings where that can be."""

    def __init__(
        self,
        work: Callable[[Batch], Tensor],
        device: torch.device,
        *,
        batch_tokens: int,
        max_length: int | None,
    ) -> None:
        self._work = work
        self._device = device
        self._unit = max(64, batch_tokens // _SIZES)
        self._max_length = max_length or _LONGEST
        self._pool = torch.cuda.graph_pool_handle()
        self._recordings: dict[Shape, tuple[Tensor, Recording]] = {}

    def __call__(self, batch: Batch) -> Tensor:
        """What `work` returns; good until the next call."""
        longest = max(batch.source.lengths.longest, batch.target.lengths.longest)
        if longest > min(_LONGEST, self._max_length):
            return self._work(batch.to(self._device))
        shape = Shape.around(batch, self._unit, self._max_length)
        numbers = shape.packed(shape.filled(batch)).pin_memory()
        if shape not in self._recordings and len(self._recordings) == _MOST:
            return self._work(shape.unpacked(numbers.to(self._device, non_blocking=True)))
        inputs, recording = self._recording(shape, len(numbers))
        inputs.copy_(numbers, non_blocking=True)
        result = recording()
        assert result is not None
        return result

    def _recording(self, shape: Shape, size: int) -> tuple[Tensor, Recording]:
        if shape not in self._recordings:
            inputs = torch.empty(size, dtype=torch.long, device=self._device)
            recording = Recording(lambda: self._work(shape.unpacked(inputs)), self._pool)
            self._recordings[shape] = inputs, recording
        return self._recordings[shape]
