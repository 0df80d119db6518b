"""Dropout: rate, scale, independence and reproducibility."""

from __future__ import annotations

import pytest
import torch

from regard.layers.dropout import Dropout


@pytest.mark.parametrize("rate", [0.001, 0.1, 0.3, 0.5, 0.9])
def test_dropout_rate_and_scale(rate: float) -> None:
    torch.manual_seed(0)
    x = torch.ones(1000, 1001)
    y = Dropout(rate).train()(x)
    error = 5 * (rate * (1 - rate) / x.numel()) ** 0.5 + 2**-16
    assert float((y == 0).float().mean()) == pytest.approx(rate, abs=error)
    assert y.unique().numel() == 2
    assert float(y.max()) == pytest.approx(1 / (1 - rate), rel=2**-13)
    assert float(y.mean()) == pytest.approx(1.0, abs=error / (1 - rate))


def test_neighbouring_elements_are_dropped_independently() -> None:
    torch.manual_seed(1)
    dropped = (Dropout(0.5).train()(torch.ones(400_000)) == 0).double()
    for distance in range(1, 9):
        both = (dropped[distance:] * dropped[:-distance]).mean()
        assert float(both) == pytest.approx(0.25, abs=0.005)


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (0, 4), (2, 3, 5)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_shapes_and_dtypes(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = torch.ones(shape, dtype=dtype)
    y = Dropout(0.4).train()(x)
    assert (y.shape, y.dtype) == (x.shape, x.dtype)
    assert ((y == 0) | (y > 1)).all()


def test_gradients_of_kept_elements() -> None:
    x = torch.randn(50, 30, requires_grad=True)
    y = Dropout(0.3).train()(x)
    y.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad * x, y)


def test_dropout_is_reproducible() -> None:
    first, again, theirs_part = (
        (torch.manual_seed(seed), Dropout(0.2).train()(torch.ones(64, 64)))[1] for seed in (3, 3, 4)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, theirs_part)


def test_no_dropout_in_evaluation() -> None:
    x = torch.randn(5, 5)
    assert Dropout(0.9).eval()(x) is x
    assert Dropout(0.0).train()(x) is x
