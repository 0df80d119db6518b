"""A process and its team: alone, on a machine with GPUs, and when something goes wrong."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import nn

from regard.data.store import Store
from regard.errors import ConfigError, LostError, RegardError, RunError
from regard.processes import ALONE, Team, _explained_losses, _said_once, joined, keeping_gradients
from regard.tasks import TASKS
from regard.training.loop import Trainer
from toys import Silent, altered, small_run

CUDA, CPU = torch.device("cuda"), torch.device("cpu")


def test_without_torchrun_a_process_is_alone() -> None:
    with joined() as team:
        assert team is ALONE
    assert team.is_first
    assert team.gathered(2.5) == [2.5]
    assert not torch.distributed.is_initialized()


def test_torchrun_with_one_process_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("WORLD_SIZE", "1")
    with joined() as team:
        assert team is ALONE


def test_alone_a_model_and_its_sums_stay_as_they_are() -> None:
    model, sums = nn.Linear(2, 2), torch.tensor([1.0, 2.0])
    assert ALONE.wrapped(model) is model
    ALONE.add_up(sums)
    assert sums.tolist() == [1.0, 2.0]
    with keeping_gradients(model, True):
        model(torch.ones(2)).sum().backward()
    assert model.weight.grad is not None


def test_without_gloo_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(torch.distributed, "is_gloo_available", lambda: False)
    with pytest.raises(ConfigError, match=r"no gloo.*train with one process"), joined():
        pass


def test_each_process_has_a_gpu_of_its_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[int] = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    team = Team(rank=5, size=6, local_rank=1, local_size=2)
    assert team.own(CUDA) == torch.device("cuda", 1)
    assert chosen == [1]
    assert team.own(CPU) == CPU
    assert ALONE.own(CUDA) == CUDA


def test_more_processes_than_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(ConfigError, match=r"are 4 processes .* has 2\. Use .* 2, or --device"):
        Team(rank=1, size=4, local_rank=1, local_size=4).own(CUDA)


def test_batch_norm_is_for_one_process(reversal_store: Store) -> None:
    config = small_run(reversal_store.folder / "never", reversal_store)
    config = altered(config, model={"norm": "batch"})
    with pytest.raises(ConfigError, match=r"model.norm=batch .* set model.norm=layer"):
        Trainer(config, reversal_store, TASKS["translation"], CPU, Silent(), Team(1, 2))


def said(counts: Counter[str], *errors: RegardError) -> list[bool]:
    """Which of these errors were said before, each being met by another process."""

    def count(name: str, more: int) -> int:
        counts[name] += more
        return counts[name]

    for error in errors:
        with pytest.raises(RegardError), _said_once(count):
            raise error
    return [error.is_said for error in errors]


def test_the_same_error_is_said_once() -> None:
    assert said(Counter(), RunError("a"), RunError("a"), RunError("b")) == [False, True, False]


def test_a_lost_process_is_worth_a_word_only_if_it_said_none() -> None:
    assert said(Counter(), LostError("gone"), LostError("gone")) == [False, True]
    assert said(Counter(), RunError("why"), LostError("gone")) == [False, True]


def test_an_error_is_said_when_torchrun_is_gone() -> None:
    def count(name: str, more: int) -> int:
        raise RuntimeError("Broken pipe")

    error = RunError("a")
    with pytest.raises(RunError), _said_once(count):
        raise error
    assert not error.is_said


def test_a_lost_connection_is_explained_and_a_bug_is_not() -> None:
    with pytest.raises(LostError, match="goes on from the last checkpoint"), _explained_losses():
        raise RuntimeError("[/third_party/gloo/pair.cc:534] Connection closed by peer")
    with pytest.raises(RuntimeError, match="shape"), _explained_losses():
        raise RuntimeError("shape mismatch")
