"""Which precision is chosen where."""

from __future__ import annotations

import pytest
import torch

from regard.devices import autocast, is_half

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
