"""Chunked losses against the reference."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from reference_losses import reference_cross_entropy, reference_r_drop
from regard.text.special import SPECIAL
from regard.training import loss_chunks
from regard.training.loss_chunks import chunked_loss
from regard.training.losses import Loss

VOCABULARY_SIZE, D_MODEL = 23, 6
WEIGHTS = [None, 5.0]  # of R-Drop


Inputs = tuple[Tensor, Tensor, Tensor, Tensor | None]


def inputs(rows: int, *, padding: bool, bias: bool, dtype: torch.dtype = torch.float32) -> Inputs:
    """Hidden states, targets, weight and bias; the second half of the targets is the first."""
    torch.manual_seed(rows)
    half = torch.randint(SPECIAL.pad + 1, VOCABULARY_SIZE, (rows // 2,))
    if padding:
        half[::3] = SPECIAL.pad
    hidden, weight, bias_term = (
        2 * torch.randn(rows, D_MODEL),
        torch.randn(VOCABULARY_SIZE, D_MODEL),
        None,
    )
    if bias:
        bias_term = torch.randn(VOCABULARY_SIZE).to(dtype).requires_grad_()
    leaves = [part.to(dtype).requires_grad_() for part in (hidden, weight)]
    return leaves[0], half.repeat(2), leaves[1], bias_term


def reference(
    hidden: Tensor,
    targets: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    smoothing: float,
    r_drop: float | None,
) -> Loss:
    logits = torch.nn.functional.linear(hidden, weight, bias)
    if r_drop is None:
        return reference_cross_entropy(logits, targets, smoothing)
    return reference_r_drop(logits, targets, smoothing, r_drop)


def gradients(loss: Tensor, parts: Inputs) -> list[Tensor]:
    leaves = [part for part in parts if part is not None and part.requires_grad]
    return list(torch.autograd.grad(loss / 7, leaves))


@pytest.mark.parametrize("r_drop", WEIGHTS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("padding", [False, True])
@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_chunked_loss_matches_the_reference(
    chunk: int,
    padding: bool,
    bias: bool,
    smoothing: float,
    r_drop: float | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loss_chunks, "_CHUNK_ELEMENTS", chunk * VOCABULARY_SIZE)
    parts = inputs(14, padding=padding, bias=bias, dtype=torch.float64)
    expected = reference(*parts, smoothing, r_drop)
    total, nll = chunked_loss(*parts, smoothing, r_drop)
    torch.testing.assert_close(total, expected.total)
    torch.testing.assert_close(nll, expected.nll)
    assert not nll.requires_grad
    for gradient, other in zip(
        gradients(total, parts), gradients(expected.total, parts), strict=True
    ):
        torch.testing.assert_close(gradient, other)


def test_frozen_weights_have_no_gradient_and_change_no_other() -> None:
    parts = inputs(14, padding=True, bias=True)
    [expected, *_] = gradients(chunked_loss(*parts, 0.1, None)[0], parts)
    for part in parts[2:]:
        assert part is not None
        part.requires_grad_(False)
    total, _ = chunked_loss(*parts, 0.1, None)
    assert torch.equal(gradients(total, parts)[0], expected)
    assert [edge for edge, _ in total.grad_fn.next_functions[1:3]] == [None, None]  # type: ignore[union-attr]


@pytest.mark.parametrize("r_drop", WEIGHTS)
def test_bfloat16_is_close(r_drop: float | None) -> None:
    parts = inputs(40, padding=True, bias=True)
    exact, _ = chunked_loss(*parts, 0.1, r_drop)
    with torch.autocast("cpu", torch.bfloat16):
        actual, _ = chunked_loss(*parts, 0.1, r_drop)
    assert actual.dtype == torch.float32
    assert actual.item() == pytest.approx(exact.item(), rel=0.02)
    for gradient, other in zip(gradients(actual, parts), gradients(exact, parts), strict=True):
        assert gradient.dtype == torch.float32
        assert (gradient - other).norm() < 0.05 * other.norm()


def test_no_gradients_are_computed_without_grad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_chunks, "_logit_gradients", None)
    with torch.no_grad():
        total, _ = chunked_loss(*inputs(6, padding=False, bias=True), 0.1, None)
    assert not total.requires_grad


def test_sums_are_float32_for_bfloat16_inputs() -> None:
    parts = inputs(400, padding=False, bias=False, dtype=torch.bfloat16)
    total, nll = chunked_loss(*parts, 0.1, None)
    assert total.dtype == nll.dtype == torch.float32
    hidden, targets, weight, _ = parts
    exact, _ = chunked_loss(hidden.float(), targets, weight.float(), None, 0.1, None)
    assert total.item() == pytest.approx(exact.item(), rel=0.01)
    assert [gradient.dtype for gradient in gradients(total, parts)] == [torch.bfloat16] * 2
