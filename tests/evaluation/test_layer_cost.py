"""Layer costs: formulas match the layers, and exceeded limits are reported."""

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
from regard.evaluation import layer_cost
from regard.evaluation.layer_cost import LayerSizes, LayerSpec, layer_specs, measure_layers

SIZES = LayerSizes(width=8, heads=2, kernel=3, batch=2, precision="float32")
CPU = torch.device("cpu")


@pytest.mark.parametrize("number", [0, 2], ids=["self-attention", "convolution"])
def test_formulas_match_counted_flops(number: int) -> None:
    layer = layer_specs(SIZES)[number]
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        layer.forward(torch.randn(5, 8), Lengths.of([5]))
    assert counter.get_total_flops() == 2 * layer.operations(5)  # a multiply-add is two operations


def test_recurrence_formula_counts_all_weights_per_token() -> None:
    layer = layer_specs(SIZES)[1]
    weights = sum(p.numel() for p in layer.module.parameters() if p.dim() == 2)
    assert layer.operations(5) == 5 * weights
    assert layer.steps(5) == layer.path(5) == 5


@pytest.mark.parametrize("words", [2, 3, 4, 9, 10, 4096])
def test_path_length_of_dilated_convolutions(words: int) -> None:
    layers = layer_specs(SIZES)[2].path(words)
    assert 3 ** (layers - 1) < words <= 3**layers


def test_layers_are_measured_at_every_length() -> None:
    costs = list(measure_layers(SIZES, [6, 3], CPU, rounds=2, seconds=60))
    assert [[cost.length for cost in costs_at_length] for costs_at_length in costs] == [
        [3] * 3,
        [6] * 3,
    ]
    for costs_at_length in costs:
        assert [p.layer for p in costs_at_length] == ["self-attention", "recurrence", "convolution"]
        for cost in costs_at_length:
            assert cost.forward is not None
            assert cost.backward is not None
            assert min(cost.forward, cost.backward) > 0
            assert not cost.missing
    memory_mb = [costs_at_length[2].memory for costs_at_length in costs]
    tokens = [2 * 3, 2 * 6]  # of the batch; a convolution saves three inputs per token
    for megabytes, count in zip(memory_mb, tokens, strict=True):
        assert megabytes is not None
        assert megabytes * 1e6 >= 4 * 3 * 8 * count


def test_layers_over_the_time_limit_are_skipped() -> None:
    short, long = measure_layers(SIZES, [2, 64], CPU, rounds=1, seconds=1e-9)
    assert all(cost.forward is not None for cost in short)  # no estimate yet
    assert [cost.missing for cost in long] == ["over 1e-09 s"] * 3
    assert all(cost.forward is None and cost.memory is None for cost in long)
    assert all(cost.operations > 0 for cost in long)


def _failing(error: Exception) -> Callable[[LayerSizes], list[LayerSpec]]:
    def forward(x: Tensor, lengths: Lengths) -> Tensor:
        if lengths.total > 2 * 4:
            raise error
        return x * 2

    return lambda sizes: [
        dataclasses.replace(layer, forward=forward) for layer in layer_specs(sizes)
    ]


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("CUDA"), RuntimeError("DefaultCPUAllocator: can't allocate memory")],
)
def test_out_of_memory_is_reported(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setattr(layer_cost, "layer_specs", _failing(error))
    costs = list(measure_layers(SIZES, [4, 8, 16], CPU, rounds=1, seconds=60))
    assert [costs_at_length[0].missing for costs_at_length in costs] == [
        "",
        "out of memory",
        "out of memory",
    ]


def test_layers_over_the_memory_limit_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_cost, "memory_limit", lambda: 1)
    short, long = measure_layers(SIZES, [2, 4], CPU, rounds=1, seconds=60)
    assert not short[0].missing
    assert long[0].missing == "out of memory"


def test_other_errors_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_cost, "layer_specs", _failing(RuntimeError("a bug")))
    with pytest.raises(RuntimeError, match="a bug"):
        list(measure_layers(SIZES, [8], CPU, rounds=1, seconds=60))


def test_invalid_sizes_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"must be divisible by --num-heads \(3\)"):
        dataclasses.replace(SIZES, heads=3)
    with pytest.raises(ConfigError, match="kernel-size is 4"):
        dataclasses.replace(SIZES, kernel=4)
