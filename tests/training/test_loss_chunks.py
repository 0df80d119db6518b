"""Losses in chunks against their definitions."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from plain_losses import plain_cross_entropy, plain_r_drop
from regard.text.special import SPECIAL
from regard.training import loss_chunks
from regard.training.loss_chunks import chunked_loss
from regard.training.losses import Loss

WORDS, WIDTH = 23, 6
WEIGHTS = [None, 5.0]  # of R-Drop


Parts = tuple[Tensor, Tensor, Tensor, Tensor | None]


def inputs(rows: int, *, filler: bool, bias: bool, dtype: torch.dtype = torch.float32) -> Parts:
    """Hidden states, targets, weight and bias; the second half of the targets is the first."""
    torch.manual_seed(rows)
    half = torch.randint(SPECIAL.pad + 1, WORDS, (rows // 2,))
    if filler:
        half[::3] = SPECIAL.pad
    hidden, weight, more = 2 * torch.randn(rows, WIDTH), torch.randn(WORDS, WIDTH), None
    if bias:
        more = torch.randn(WORDS).to(dtype).requires_grad_()
    leaves = [part.to(dtype).requires_grad_() for part in (hidden, weight)]
    return leaves[0], half.repeat(2), leaves[1], more


def plain(
    hidden: Tensor,
    targets: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    smoothing: float,
    r_drop: float | None,
) -> Loss:
    logits = torch.nn.functional.linear(hidden, weight, bias)
    if r_drop is None:
        return plain_cross_entropy(logits, targets, smoothing)
    return plain_r_drop(logits, targets, smoothing, r_drop)


def gradients(loss: Tensor, parts: Parts) -> list[Tensor]:
    leaves = [part for part in parts if part is not None and part.requires_grad]
    return list(torch.autograd.grad(loss / 7, leaves))


@pytest.mark.parametrize("r_drop", WEIGHTS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("filler", [False, True])
@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_it_is_the_definition(
    chunk: int,
    filler: bool,
    bias: bool,
    smoothing: float,
    r_drop: float | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loss_chunks, "_NUMBERS", chunk * WORDS)
    parts = inputs(14, filler=filler, bias=bias, dtype=torch.float64)
    expected = plain(*parts, smoothing, r_drop)
    total, nll = chunked_loss(*parts, smoothing, r_drop)
    torch.testing.assert_close(total, expected.total)
    torch.testing.assert_close(nll, expected.nll)
    assert not nll.requires_grad
    for one, other in zip(gradients(total, parts), gradients(expected.total, parts), strict=True):
        torch.testing.assert_close(one, other)


def test_weights_that_do_not_learn_have_no_gradient_and_change_no_other() -> None:
    parts = inputs(14, filler=True, bias=True)
    [expected, *_] = gradients(chunked_loss(*parts, 0.1, None)[0], parts)
    for part in parts[2:]:
        assert part is not None
        part.requires_grad_(False)
    total, _ = chunked_loss(*parts, 0.1, None)
    assert torch.equal(gradients(total, parts)[0], expected)
    assert [edge for edge, _ in total.grad_fn.next_functions[1:3]] == [None, None]  # type: ignore[union-attr]


@pytest.mark.parametrize("r_drop", WEIGHTS)
def test_half_precision_is_near(r_drop: float | None) -> None:
    parts = inputs(40, filler=True, bias=True)
    exact, _ = chunked_loss(*parts, 0.1, r_drop)
    with torch.autocast("cpu", torch.bfloat16):
        found, _ = chunked_loss(*parts, 0.1, r_drop)
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(exact.item(), rel=0.02)
    for one, other in zip(gradients(found, parts), gradients(exact, parts), strict=True):
        assert one.dtype == torch.float32
        assert (one - other).norm() < 0.05 * other.norm()


def test_where_nothing_learns_nothing_is_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_chunks, "_slopes", None)
    with torch.no_grad():
        total, _ = chunked_loss(*inputs(6, filler=False, bias=True), 0.1, None)
    assert not total.requires_grad


def test_sums_are_not_rounded_with_the_hidden_states() -> None:
    parts = inputs(400, filler=False, bias=False, dtype=torch.bfloat16)
    total, nll = chunked_loss(*parts, 0.1, None)
    assert total.dtype == nll.dtype == torch.float32
    hidden, targets, weight, _ = parts
    exact, _ = chunked_loss(hidden.float(), targets, weight.float(), None, 0.1, None)
    assert total.item() == pytest.approx(exact.item(), rel=0.01)
    assert [one.dtype for one in gradients(total, parts)] == [torch.bfloat16] * 2
