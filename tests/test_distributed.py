"""The distributed context: single process, devices of ranks, and errors of lost processes."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import nn

from regard.data.store import Store
from regard.distributed import (
    SINGLE_PROCESS,
    DistributedContext,
    _deduplicate_errors,
    _explain_lost_processes,
    distributed_context,
    no_gradient_sync,
)
from regard.errors import ConfigError, ProcessLostError, RegardError, RunError
from regard.tasks import TASKS
from regard.training.loop import Trainer
from toys import CollectingCallback, altered, small_run

CUDA, CPU = torch.device("cuda"), torch.device("cpu")


def test_without_torchrun_the_world_size_is_one() -> None:
    with distributed_context() as distributed:
        assert distributed is SINGLE_PROCESS
    assert distributed.is_main_process
    assert distributed.all_gather(2.5) == [2.5]
    assert not torch.distributed.is_initialized()


def test_torchrun_with_one_process_creates_no_process_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("WORLD_SIZE", "1")
    with distributed_context() as distributed:
        assert distributed is SINGLE_PROCESS


def test_single_process_wraps_and_reduces_nothing() -> None:
    model, sums = nn.Linear(2, 2), torch.tensor([1.0, 2.0])
    assert SINGLE_PROCESS.wrap_model(model) is model
    SINGLE_PROCESS.all_reduce(sums)
    assert sums.tolist() == [1.0, 2.0]
    with no_gradient_sync(model, True):
        model(torch.ones(2)).sum().backward()
    assert model.weight.grad is not None


def test_missing_gloo_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(torch.distributed, "is_gloo_available", lambda: False)
    with (
        pytest.raises(ConfigError, match=r"no gloo.*train with one process"),
        distributed_context(),
    ):
        pass


def test_each_process_uses_the_gpu_of_its_local_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    selected: list[int] = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", selected.append)
    distributed = DistributedContext(rank=5, world_size=6, local_rank=1, local_world_size=2)
    assert distributed.local_device(CUDA) == torch.device("cuda", 1)
    assert selected == [1]
    assert distributed.local_device(CPU) == CPU
    assert SINGLE_PROCESS.local_device(CUDA) == CUDA


def test_more_processes_than_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(ConfigError, match=r"are 4 processes .* 2 GPUs\. Use .* 2, or --device"):
        DistributedContext(rank=1, world_size=4, local_rank=1, local_world_size=4).local_device(
            CUDA
        )


def test_batch_norm_requires_one_process(reversal_store: Store) -> None:
    config = small_run(reversal_store.folder / "never", reversal_store)
    config = altered(config, model={"norm": "batch"})
    with pytest.raises(ConfigError, match=r"model.norm=batch .* set model.norm=layer"):
        Trainer(
            config,
            reversal_store,
            TASKS["translation"],
            CPU,
            CollectingCallback(),
            DistributedContext(1, 2),
        )


def reported_before(counts: Counter[str], *errors: RegardError) -> list[bool]:
    """Which of these errors, each raised in another process, were already reported."""

    def count(name: str, increment: int) -> int:
        counts[name] += increment
        return counts[name]

    for error in errors:
        with pytest.raises(RegardError), _deduplicate_errors(count):
            raise error
    return [error.is_reported for error in errors]


def test_the_same_error_is_reported_once() -> None:
    assert reported_before(Counter(), RunError("a"), RunError("a"), RunError("b")) == [
        False,
        True,
        False,
    ]


def test_lost_process_is_reported_only_if_it_reported_no_error_itself() -> None:
    assert reported_before(Counter(), ProcessLostError("gone"), ProcessLostError("gone")) == [
        False,
        True,
    ]
    assert reported_before(Counter(), RunError("why"), ProcessLostError("gone")) == [False, True]


def test_error_is_reported_when_torchrun_has_ended() -> None:
    def count(name: str, increment: int) -> int:
        raise RuntimeError("Broken pipe")

    error = RunError("a")
    with pytest.raises(RunError), _deduplicate_errors(count):
        raise error
    assert not error.is_reported


def test_lost_connections_are_explained_and_other_errors_are_not() -> None:
    with (
        pytest.raises(ProcessLostError, match="resume from the last checkpoint"),
        _explain_lost_processes(),
    ):
        raise RuntimeError("[/third_party/gloo/pair.cc:534] Connection closed by peer")
    with pytest.raises(RuntimeError, match="shape"), _explain_lost_processes():
        raise RuntimeError("shape mismatch")
