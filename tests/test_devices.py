"""Resolving device names, and the precision that each device uses."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from regard.devices import autocast, resolve_device, uses_bfloat16
from regard.distributed import DistributedContext
from regard.errors import ConfigError

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.mark.parametrize(
    ("capabilities", "width", "bfloat16"),
    [
        ({"avx512_bf16": True}, 128, True),
        ({"amx_bf16": True}, 512, True),
        ({"avx512_bf16": True}, 64, False),
        ({"avx512_bf16": False}, 512, False),
        ({}, 512, False),
    ],
)
def test_cpu_uses_bfloat16_where_it_is_fast(
    capabilities: dict[str, bool], width: int, bfloat16: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    assert uses_bfloat16(CPU, "auto", width) == bfloat16
    assert uses_bfloat16(CPU, "bfloat16", width)
    assert not uses_bfloat16(CPU, "float32", width)
    assert uses_bfloat16(GPU, "auto", width)


@pytest.mark.parametrize("bfloat16", [False, True])
def test_autocast_sets_the_dtype_of_matrix_products(bfloat16: bool) -> None:
    with autocast(CPU, enabled=bfloat16):
        product = torch.ones(2, 2) @ torch.ones(2, 2)
    assert product.dtype == (torch.bfloat16 if bfloat16 else torch.float32)


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> list[torch.device]:
    """Patch two GPUs into PyTorch; returns the list of devices that `set_device` is called with."""
    selected: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", selected.append)
    return selected


def test_gpu_is_selected_by_index(two_gpus: list[torch.device]) -> None:
    assert resolve_device("cuda:1") == torch.device("cuda", 1)
    assert two_gpus == [torch.device("cuda", 1)]
    assert resolve_device("cuda:0") == torch.device("cuda", 0)
    assert resolve_device("cuda") == resolve_device("auto") == GPU


def test_nonexistent_gpu_is_refused(two_gpus: list[torch.device]) -> None:
    with pytest.raises(ConfigError, match=r"no GPU cuda:2\. Use cuda:0 to cuda:1"):
        resolve_device("cuda:2")
    assert not two_gpus


@given(st.text() | st.from_regex(r"cuda:?[-0-9 a-z]*"))
def test_unknown_device_names_are_refused(name: str) -> None:
    assume(name not in ("auto", "cpu"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "is_available", lambda: False)
        with pytest.raises(ConfigError):
            resolve_device(name)


def test_each_process_uses_its_own_gpu(two_gpus: list[torch.device]) -> None:
    distributed = DistributedContext(rank=1, world_size=2, local_rank=1, local_world_size=2)
    assert distributed.local_device(GPU) == torch.device("cuda", 1)
    with pytest.raises(ConfigError, match="--device cuda:0 is one GPU, and 2 processes need one"):
        distributed.local_device(torch.device("cuda", 0))


def test_devices_of_pytorch_are_names_as_well() -> None:
    device: Any = CPU
    assert resolve_device(device) == CPU
    with pytest.raises(ConfigError, match="Unknown device '5'"):
        resolve_device(5)  # type: ignore[arg-type]
