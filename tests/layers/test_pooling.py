"""Pooling of subwords against a loop."""

from __future__ import annotations

from typing import get_args

import pytest
import torch
from torch import Tensor

from regard.data.ragged import Lengths
from regard.layers.pooling import Pooling, pool_subwords

CASES = [[1], [3, 1, 2], [2, 0, 4], [0, 1], [1, 0]]


def of_word(states: Tensor, pooling: Pooling) -> Tensor:
    if not len(states):
        return states.new_zeros(states.shape[1])
    return {"first": states[0], "last": states[-1], "mean": states.mean(0)}[pooling]


@pytest.mark.parametrize("pooling", get_args(Pooling))
@pytest.mark.parametrize("counts", CASES)
def test_pooling_matches_a_loop(counts: list[int], pooling: Pooling) -> None:
    torch.manual_seed(0)
    states = torch.randn(sum(counts), 5, requires_grad=True)
    actual = pool_subwords(states, Lengths.of(counts), pooling)
    expected = torch.stack([of_word(part, pooling) for part in states.split(counts)])
    torch.testing.assert_close(actual, expected)
    weights = torch.randn_like(actual)
    (gradient,) = torch.autograd.grad((actual * weights).sum(), states, retain_graph=True)
    (right,) = torch.autograd.grad((expected * weights).sum(), states)
    torch.testing.assert_close(gradient, right)


@pytest.mark.parametrize("pooling", get_args(Pooling))
def test_words_without_subwords_are_zeros(pooling: Pooling) -> None:
    actual = pool_subwords(torch.zeros(0, 5), Lengths.of([0, 0]), pooling)
    assert torch.equal(actual, torch.zeros(2, 5))


def test_mean_is_not_summed_in_half_precision() -> None:
    states = torch.tensor([[256.0]] + [[1.0]] * 63, dtype=torch.bfloat16)
    actual = pool_subwords(states, Lengths.of([64]), "mean")
    assert actual.dtype == torch.bfloat16
    assert actual.item() == torch.tensor((256 + 63) / 64, dtype=torch.bfloat16).item()
