"""What layers cost: the formulas are those of the layers, and what does not fit is told."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from regard.data.ragged import Lengths
from regard.errors import ConfigError
from regard.evaluation import growth
from regard.evaluation.growth import Kind, Sizes, grown, kinds

SIZES = Sizes(width=8, heads=2, kernel=3, batch=2, precision="float32")
CPU = torch.device("cpu")


@pytest.mark.parametrize("number", [0, 2], ids=["self-attention", "convolution"])
def test_operations_are_those_of_the_layer(number: int) -> None:
    kind = kinds(SIZES)[number]
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        kind.forward(torch.randn(5, 8), Lengths.of([5]))
    assert counter.get_total_flops() == 2 * kind.operations(5)  # a product and a sum


def test_a_recurrence_uses_every_weight_at_every_word() -> None:
    kind = kinds(SIZES)[1]
    weights = sum(p.numel() for p in kind.module.parameters() if p.dim() == 2)
    assert kind.operations(5) == 5 * weights
    assert kind.steps(5) == kind.path(5) == 5


@pytest.mark.parametrize("words", [2, 3, 4, 9, 10, 4096])
def test_convolutions_with_gaps_see_k_times_as_far(words: int) -> None:
    layers = kinds(SIZES)[2].path(words)
    assert 3 ** (layers - 1) < words <= 3**layers


def test_layers_are_measured_at_every_length() -> None:
    found = list(grown(SIZES, [6, 3], CPU, rounds=2, seconds=60))
    assert [[point.length for point in points] for points in found] == [[3] * 3, [6] * 3]
    for points in found:
        assert [p.layer for p in points] == ["self-attention", "recurrence", "convolution"]
        for point in points:
            assert point.forward is not None
            assert point.backward is not None
            assert min(point.forward, point.backward) > 0
            assert not point.missing
    kept = [points[2].memory for points in found]
    tokens = [2 * 3, 2 * 6]  # of the batch: a convolution keeps three neighbours of each
    for megabytes, count in zip(kept, tokens, strict=True):
        assert megabytes is not None
        assert megabytes * 1e6 >= 4 * 3 * 8 * count


def test_what_would_take_too_long_is_left_out() -> None:
    short, long = grown(SIZES, [2, 64], CPU, rounds=1, seconds=1e-9)
    assert all(point.forward is not None for point in short)  # nobody knew
    assert [point.missing for point in long] == ["over 1e-09 s"] * 3
    assert all(point.forward is None and point.memory is None for point in long)
    assert all(point.operations > 0 for point in long)


def _failing(error: Exception) -> Callable[[Sizes], list[Kind]]:
    def forward(x: Tensor, lengths: Lengths) -> Tensor:
        if lengths.total > 2 * 4:
            raise error
        return x * 2

    return lambda sizes: [dataclasses.replace(kind, forward=forward) for kind in kinds(sizes)]


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("CUDA"), RuntimeError("DefaultCPUAllocator: can't allocate memory")],
)
def test_too_little_memory_is_no_crash(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setattr(growth, "kinds", _failing(error))
    found = list(grown(SIZES, [4, 8, 16], CPU, rounds=1, seconds=60))
    assert [points[0].missing for points in found] == ["", "out of memory", "out of memory"]


def test_memory_that_no_machine_has_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "machine_memory", lambda: 1)
    short, long = grown(SIZES, [2, 4], CPU, rounds=1, seconds=60)
    assert not short[0].missing
    assert long[0].missing == "out of memory"


def test_other_failures_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "kinds", _failing(RuntimeError("a bug")))
    with pytest.raises(RuntimeError, match="a bug"):
        list(grown(SIZES, [8], CPU, rounds=1, seconds=60))


def test_sizes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError, match="3 heads do not divide"):
        dataclasses.replace(SIZES, heads=3)
    with pytest.raises(ConfigError, match="4 words has no middle"):
        dataclasses.replace(SIZES, kernel=4)
