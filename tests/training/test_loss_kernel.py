"""The fused losses against the reference; without a GPU, Triton interprets the kernels."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import Tensor

from reference_losses import reference_cross_entropy, reference_r_drop
from regard.models.transformer import Transformer
from regard.text.special import SPECIAL
from regard.training import losses
from regard.training.config import TrainingConfig
from regard.training.losses import Loss
from regard.training.objective import Objective
from regard.training.optimizer import make_optimizer
from regard.training.step import Updater
from toys import pairs, small_transformer

pytest.importorskip("triton")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SIZES = [(1, 5, 8), (2, 8, 8), (6, 37, 16), (4, 300, 64)]  # rows, vocab_size, block
needs_gpu = pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")


def fused(
    logits: Tensor, targets: Tensor, smoothing: float, weight: float | None, block: int = 16
) -> Loss:
    """The kernels, with several blocks per row."""
    from regard.training.loss_kernel import fused_loss

    return Loss(*fused_loss(logits, targets, smoothing, weight, block))


def reference(logits: Tensor, targets: Tensor, smoothing: float, weight: float | None) -> Loss:
    if weight is None:
        return reference_cross_entropy(logits, targets, smoothing)
    return reference_r_drop(logits, targets, smoothing, weight)


def random_inputs(
    rows: int, vocab_size: int, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """Logits that require a gradient, and targets, which include the first and last token."""
    torch.manual_seed(rows * vocab_size)
    targets = torch.randint(SPECIAL.pad + 1, vocab_size, (rows,))
    targets[0], targets[-1] = SPECIAL.pad + 1, vocab_size - 1
    logits = (3 * torch.randn(rows, vocab_size)).to(DEVICE, dtype)
    return logits.requires_grad_(), targets.to(DEVICE)


def assert_matches_reference(
    logits: Tensor,
    targets: Tensor,
    smoothing: float,
    weight: float | None,
    *,
    block: int = 16,
    rtol: float = 1e-4,
    atol: float = 1e-5,
) -> None:
    """Compare losses and gradients with the reference in float64; bounds are for gradients."""
    exact = logits.detach().double().requires_grad_()
    expected = reference(exact, targets, smoothing, weight)
    actual = fused(logits, targets, smoothing, weight, block)
    assert actual.total.item() == pytest.approx(expected.total.item(), rel=1e-5)
    assert actual.nll.item() == pytest.approx(expected.nll.item(), rel=1e-5)
    (expected.total / 7).backward()
    (actual.total / 7).backward()
    assert logits.grad is not None
    assert exact.grad is not None
    assert logits.grad.dtype == logits.dtype
    torch.testing.assert_close(logits.grad.double(), exact.grad, rtol=rtol, atol=atol)


@pytest.mark.parametrize("weight", [None, 5.0])
def test_padding_does_not_contribute_to_the_loss(weight: float | None) -> None:
    logits, targets = random_inputs(12, 37)
    targets = targets[:6].repeat(2)
    real = torch.arange(12, device=DEVICE) % 6 < 4
    assert_matches_reference(logits, targets.masked_fill(~real, SPECIAL.pad), 0.1, weight)
    assert logits.grad is not None
    assert not logits.grad[~real].any()
    unpadded, expected = logits.detach()[real].requires_grad_(), logits.grad[real]
    logits.grad = None
    assert_matches_reference(unpadded, targets[real], 0.1, weight)
    torch.testing.assert_close(unpadded.grad, expected)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(("rows", "vocab_size", "block"), SIZES)
def test_cross_entropy(rows: int, vocab_size: int, block: int, smoothing: float) -> None:
    assert_matches_reference(*random_inputs(rows, vocab_size), smoothing, None, block=block)


@pytest.mark.parametrize("weight", [1.0, 5.0])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(("rows", "vocab_size", "block"), SIZES[1:])
def test_r_drop(rows: int, vocab_size: int, block: int, smoothing: float, weight: float) -> None:
    assert_matches_reference(*random_inputs(rows, vocab_size), smoothing, weight, block=block)


@pytest.mark.parametrize("weight", [None, 5.0])
@pytest.mark.parametrize(("dtype", "step"), [(torch.bfloat16, 2**-7), (torch.float16, 2**-10)])
def test_half_precision_is_rounded_only_at_the_end(
    dtype: torch.dtype, step: float, weight: float | None
) -> None:
    # By half a step when the gradient is stored, and by half a step when it is scaled; the
    # interpreter loses up to a whole step each time, since it truncates to bfloat16.
    steps = 2 if DEVICE == "cpu" and dtype == torch.bfloat16 else 1
    assert_matches_reference(*random_inputs(4, 37, dtype), 0.1, weight, rtol=steps * step)


@pytest.mark.parametrize("weight", [None, 5.0])
@pytest.mark.parametrize("scale", [1e4, -1e4])
def test_extreme_logits_give_finite_losses(scale: float, weight: float | None) -> None:
    logits, targets = random_inputs(4, 37)
    extreme = torch.zeros_like(logits)
    extreme[0, 0], extreme[1, 36], extreme[2], extreme[3, 5] = scale, -scale, scale, scale
    # Numbers near 1e4 are a thousandth apart in float32.
    assert_matches_reference(extreme.requires_grad_(), targets, 0.1, weight, rtol=1e-3, atol=1e-3)


def test_equal_passes_have_no_divergence() -> None:
    logits, targets = random_inputs(3, 37)
    doubled, doubled_targets = logits.detach().repeat(2, 1).requires_grad_(), targets.repeat(2)
    single = fused(logits, targets, 0.1, None)
    r_drop = fused(doubled, doubled_targets, 0.1, 5.0)
    torch.testing.assert_close(r_drop.total, single.total)
    single.total.backward()
    r_drop.total.backward()
    assert doubled.grad is not None
    torch.testing.assert_close(doubled.grad.chunk(2)[0] * 2, logits.grad)


@pytest.mark.parametrize("weight", [None, 5.0])
def test_only_the_total_requires_grad_and_only_if_grad_is_enabled(weight: float | None) -> None:
    logits, targets = random_inputs(4, 37)
    loss = fused(logits, targets, 0.1, weight)
    assert loss.total.requires_grad
    assert not loss.nll.requires_grad
    for disabled in (torch.no_grad(), torch.inference_mode()):
        with disabled:
            actual = fused(logits, targets, 0.1, weight)
        assert not actual.total.requires_grad
        assert (actual.total.item(), actual.nll.item()) == (
            loss.total.item(),
            loss.nll.item(),
        )


def test_second_backward_doubles_the_gradient() -> None:
    logits, targets = random_inputs(4, 37)
    loss = fused(logits, targets, 0.1, 5.0)
    loss.total.backward(retain_graph=True)
    assert logits.grad is not None
    once = logits.grad.clone()
    loss.total.backward()
    torch.testing.assert_close(logits.grad, 2 * once)


def test_logits_need_not_be_contiguous() -> None:
    logits, targets = random_inputs(4, 37)
    expected = fused(logits, targets, 0.1, None).total
    columns = logits.detach().T.contiguous().T
    assert torch.equal(fused(columns, targets, 0.1, None).total, expected)


@pytest.mark.parametrize("target", [-1, 37])
def test_target_outside_the_vocabulary_gives_nan(target: int) -> None:
    logits, targets = random_inputs(4, 37)
    targets[2] = target
    assert fused(logits, targets, 0.1, None).total.isnan()


def run_update(model: Transformer, weight: float) -> tuple[list[float], list[Tensor]]:
    """Loss, negative log-likelihood and gradients of an update."""
    config = TrainingConfig(r_drop=weight, max_grad_norm=0.0, precision="float32")
    optimizer = make_optimizer(model, config)
    update = Updater(model.train(), optimizer, Objective(config))([pairs(4)], step=1, rate=0.0)
    gradients = [weights.grad for weights in model.parameters() if weights.grad is not None]
    return update.sums.tolist(), gradients


@pytest.mark.parametrize("weight", [0.0, 5.0])
def test_update_with_kernel_equals_update_without(
    weight: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(losses, "_has_kernel", lambda logits: False)
    expected, expected_gradients = run_update(small_transformer(dropout=0.3).to(DEVICE), weight)
    monkeypatch.setattr(losses, "_has_kernel", lambda logits: True)
    actual, actual_gradients = run_update(small_transformer(dropout=0.3).to(DEVICE), weight)
    assert actual == pytest.approx(expected, rel=1e-5)
    for gradient, other in zip(actual_gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, other, atol=1e-6, rtol=1e-4)


def test_cpu_does_not_import_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "regard.training.loss_kernel", None)  # makes the import fail
    model, batch = small_transformer(), pairs(4)
    assert losses.token_loss(model(batch), 0.1).total > 0
    assert losses.token_loss(model(batch.duplicate()), 0.1, 5.0).total > 0


@needs_gpu
@pytest.mark.parametrize("weight", [None, 5.0])
@pytest.mark.parametrize(("rows", "vocab_size"), [(16384, 8000), (4096, 32768), (4096, 31999)])
def test_realistic_sizes(rows: int, vocab_size: int, weight: float | None) -> None:
    from regard.training.loss_kernel import BLOCK

    logits, targets = random_inputs(rows, vocab_size, torch.bfloat16)
    assert_matches_reference(logits, targets, 0.1, weight, block=BLOCK, rtol=2**-7)
