"""CUDA graph capture: number of calls, and no garbage collection during capture."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch

from regard.cuda_graphs import CapturedStep


class FakeGraph:
    """A CUDA graph that needs no GPU."""

    def capture_begin(self, **_: Any) -> None: ...

    def capture_end(self) -> None: ...

    def replay(self) -> None: ...


@pytest.fixture(autouse=True)
def fake_cuda_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "CUDAGraph", FakeGraph)


def test_function_runs_eagerly_once_then_is_captured_and_replayed() -> None:
    calls = []
    step = CapturedStep(lambda: calls.append(1), pool=None)
    for _ in range(5):
        step()
    assert len(calls) == 2


def test_garbage_collection_is_disabled_during_capture() -> None:
    """Freeing an older graph during capture would invalidate the new one."""
    gc_enabled = []
    step = CapturedStep(lambda: gc_enabled.append(gc.isenabled()), pool=None)
    step()
    step()
    assert gc_enabled == [True, False]
    assert gc.isenabled()


def test_garbage_collection_is_enabled_again_after_an_error() -> None:
    def failing_during_capture() -> None:
        if not gc.isenabled():
            raise RuntimeError("out of memory")

    step = CapturedStep(failing_during_capture, pool=None)
    step()
    with pytest.raises(RuntimeError, match="out of memory"):
        step()
    assert gc.isenabled()
