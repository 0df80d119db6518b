"""CUDA graphs: capture the kernels of a computation once and replay them.

A small model launches about a thousand short kernels a step, and launching them one by one from
Python takes longer than running them. Replaying a CUDA graph launches all of them at once.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import torch

T = TypeVar("T")


@contextmanager
def capture_stream(device: torch.device, stream: torch.cuda.Stream | None = None) -> Iterator[None]:
    """Run the block on a side stream: the default stream does not support capture."""
    stream = stream or torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream(device).wait_stream(stream)


class CapturedStep(Generic[T]):
    """A function without arguments: eager on the first call, captured on the second, replayed."""

    def __init__(self, function: Callable[[], T], pool: Any) -> None:
        self._function = function
        self._pool = pool
        self._calls = 0
        self._graph = torch.cuda.CUDAGraph()
        self._result: T | None = None

    def __call__(self) -> T:
        """Run the function. The next call overwrites the tensors of the result."""
        self._calls += 1
        if self._calls == 1:  # compiles kernels and initializes libraries, which capture forbids
            return self._function()
        if self._calls == 2:
            self._capture()
        self._graph.replay()
        return self._result  # type: ignore[return-value]  # None only where that is the result

    def _capture(self) -> None:
        gc_enabled = gc.isenabled()
        gc.disable()  # freeing another graph during capture would invalidate this one
        # "thread_local": threads that prefetch batches may call CUDA during capture.
        self._graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
        try:
            self._result = self._function()
        finally:
            self._graph.capture_end()
            if gc_enabled:
                gc.enable()
