"""Attention without queries: max pooling and gates."""

from __future__ import annotations

import torch

from regard.attention import Gate, max_pooling


def test_max_pooling() -> None:
    values = torch.tensor([[1.0, -5.0], [0.0, 3.0], [9.0, 9.0]])
    assert max_pooling(values).tolist() == [9.0, 9.0]
    assert max_pooling(values, torch.tensor([True, True, False])).tolist() == [1.0, 3.0]
    assert max_pooling(values, torch.tensor([True, False, False])).tolist() == [1.0, -5.0]


def test_max_pooling_of_fully_masked_inputs() -> None:
    values = torch.randn(2, 3, 4, requires_grad=True)
    pooled = max_pooling(values, torch.tensor([[False] * 3, [True] * 3]))
    assert pooled[0].abs().max() == 0
    pooled.sum().backward()
    assert values.grad is not None
    assert values.grad[0].abs().max() == 0
    assert values.grad[1].sum() == 4


def test_gate_scales_each_input() -> None:
    gate, values = Gate(5), torch.randn(3, 4, 5)
    actual = gate(values)
    passed = actual / values
    assert ((passed > 0) & (passed < 1)).all()
    torch.testing.assert_close(actual[1, 2], gate(values[1, 2]))
