"""Work of a GPU, recorded once and replayed from then on.

A small model's work is a thousand short kernels, and asking for them one by one takes Python longer
than running them takes the GPU. A recording (a CUDA graph) asks for all of them at once.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import torch

T = TypeVar("T")


@contextmanager
def recordable(device: torch.device, stream: torch.cuda.Stream | None = None) -> Iterator[None]:
    """A stream of its own for all work, since nothing can be recorded on the usual one."""
    stream = stream or torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream(device).wait_stream(stream)


class Recording(Generic[T]):
    """Some work without arguments, done once as it is, then recorded, then replayed."""

    def __init__(self, work: Callable[[], T], pool: Any) -> None:
        self._work = work
        self._pool = pool
        self._runs = 0
        self._graph = torch.cuda.CUDAGraph()
        self._result: T | None = None

    def __call__(self) -> T:
        """Do the work. What it returns is good until the next time."""
        self._runs += 1
        if self._runs == 1:  # kernels are compiled, libraries wake up: none of that can be recorded
            return self._work()
        if self._runs == 2:
            self._record()
        self._graph.replay()
        return self._result  # type: ignore[return-value]  # None only where that is the result

    def _record(self) -> None:
        collects = gc.isenabled()
        gc.disable()  # to free an old recording meanwhile would spoil the one being made
        # Threads that prepare the next batches may go on meanwhile.
        self._graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
        try:
            self._result = self._work()
        finally:
            self._graph.capture_end()
            if collects:
                gc.enable()
