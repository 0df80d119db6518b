"""Recordings of a GPU's work: what must not happen while one is made."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch

from regard.recording import Recording


class SilentGraph:
    """A CUDA graph without a GPU."""

    def capture_begin(self, **_: Any) -> None: ...

    def capture_end(self) -> None: ...

    def replay(self) -> None: ...


@pytest.fixture(autouse=True)
def no_gpu_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "CUDAGraph", SilentGraph)


def test_work_is_done_once_then_recorded_and_then_replayed() -> None:
    calls = []
    recording = Recording(lambda: calls.append(1), pool=None)
    for _ in range(5):
        recording()
    assert len(calls) == 2


def test_nothing_is_collected_while_work_is_recorded() -> None:
    """A collector that frees an older graph would spoil the one being recorded."""
    collects = []
    recording = Recording(lambda: collects.append(gc.isenabled()), pool=None)
    recording()
    recording()
    assert collects == [True, False]
    assert gc.isenabled()


def test_garbage_is_collected_again_after_a_failure() -> None:
    def work() -> None:
        if not gc.isenabled():
            raise RuntimeError("out of memory")

    recording = Recording(work, pool=None)
    recording()
    with pytest.raises(RuntimeError, match="out of memory"):
        recording()
    assert gc.isenabled()
