"""Which precision is chosen where."""

from __future__ import annotations

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from regard.devices import autocast, device_named, is_half
from regard.errors import ConfigError
from regard.processes import Team

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.mark.parametrize(
    ("known", "width", "half"),
    [
        ({"avx512_bf16": True}, 128, True),
        ({"amx_bf16": True}, 512, True),
        ({"avx512_bf16": True}, 64, False),
        ({"avx512_bf16": False}, 512, False),
        ({}, 512, False),
    ],
)
def test_a_cpu_takes_what_it_multiplies_fast(
    known: dict[str, bool], width: int, half: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: known)
    assert is_half(CPU, "auto", width) == half
    assert is_half(CPU, "bfloat16", width)
    assert not is_half(CPU, "float32", width)
    assert is_half(GPU, "auto", width)


@pytest.mark.parametrize("half", [False, True])
def test_products_have_the_precision(half: bool) -> None:
    with autocast(CPU, half=half):
        product = torch.ones(2, 2) @ torch.ones(2, 2)
    assert product.dtype == (torch.bfloat16 if half else torch.float32)


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> list[torch.device]:
    """A machine with two GPUs, and those that were made the current one."""
    chosen: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    return chosen


def test_a_gpu_is_named_by_its_number(two_gpus: list[torch.device]) -> None:
    assert device_named("cuda:1") == torch.device("cuda", 1)
    assert two_gpus == [torch.device("cuda", 1)]
    assert device_named("cuda:0") == torch.device("cuda", 0)
    assert device_named("cuda") == device_named("auto") == GPU


def test_a_gpu_that_does_not_exist(two_gpus: list[torch.device]) -> None:
    with pytest.raises(ConfigError, match=r"no GPU cuda:2\. PyTorch can use cuda:0 to cuda:1 here"):
        device_named("cuda:2")
    assert not two_gpus


@given(st.text() | st.from_regex(r"cuda:?[-0-9 a-z]*"))
def test_other_names_are_refused(name: str) -> None:
    assume(name not in ("auto", "cpu"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "is_available", lambda: False)
        with pytest.raises(ConfigError):
            device_named(name)


def test_several_processes_have_a_gpu_each(two_gpus: list[torch.device]) -> None:
    team = Team(rank=1, size=2, local_rank=1, local_size=2)
    assert team.own(GPU) == torch.device("cuda", 1)
    with pytest.raises(ConfigError, match="--device cuda:0 is one GPU, and 2 processes need one"):
        team.own(torch.device("cuda", 0))
