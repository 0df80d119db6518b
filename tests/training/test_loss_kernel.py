"""The fused losses against the plain ones; without a GPU, Triton interprets the kernels."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import Tensor

from plain_losses import plain_cross_entropy, plain_r_drop
from regard.models.transformer import Transformer
from regard.text.special import SPECIAL
from regard.training import losses
from regard.training.config import TrainingConfig
from regard.training.losses import Loss
from regard.training.objective import Objective
from regard.training.optimizer import make_optimizer
from regard.training.step import Updater
from toys import pairs, small_model

pytest.importorskip("triton")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SIZES = [(1, 5, 8), (2, 8, 8), (6, 37, 16), (4, 300, 64)]  # rows, words, block
needs_gpu = pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")


def fused(
    logits: Tensor, targets: Tensor, smoothing: float, weight: float | None, block: int = 16
) -> Loss:
    """The kernels, with blocks so small that a row has several."""
    from regard.training.loss_kernel import fused_loss

    return Loss(*fused_loss(logits, targets, smoothing, weight, block))


def plain(logits: Tensor, targets: Tensor, smoothing: float, weight: float | None) -> Loss:
    if weight is None:
        return plain_cross_entropy(logits, targets, smoothing)
    return plain_r_drop(logits, targets, smoothing, weight)


def some(rows: int, words: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Logits that can learn, and targets; the first and the last word are among them."""
    torch.manual_seed(rows * words)
    targets = torch.randint(SPECIAL.pad + 1, words, (rows,))
    targets[0], targets[-1] = SPECIAL.pad + 1, words - 1
    logits = (3 * torch.randn(rows, words)).to(DEVICE, dtype)
    return logits.requires_grad_(), targets.to(DEVICE)


def assert_alike(
    logits: Tensor,
    targets: Tensor,
    smoothing: float,
    weight: float | None,
    *,
    block: int = 16,
    rtol: float = 1e-4,
    atol: float = 1e-5,
) -> None:
    """Values and gradients are those of the plain form in float64, the bounds the gradient's."""
    exact = logits.detach().double().requires_grad_()
    expected = plain(exact, targets, smoothing, weight)
    found = fused(logits, targets, smoothing, weight, block)
    assert found.total.item() == pytest.approx(expected.total.item(), rel=1e-5)
    assert found.nll.item() == pytest.approx(expected.nll.item(), rel=1e-5)
    (expected.total / 7).backward()
    (found.total / 7).backward()
    assert logits.grad is not None
    assert exact.grad is not None
    assert logits.grad.dtype == logits.dtype
    torch.testing.assert_close(logits.grad.double(), exact.grad, rtol=rtol, atol=atol)


@pytest.mark.parametrize("weight", [None, 5.0])
def test_filler_has_no_part_in_the_loss(weight: float | None) -> None:
    logits, targets = some(12, 37)
    targets = targets[:6].repeat(2)
    real = torch.arange(12, device=DEVICE) % 6 < 4
    assert_alike(logits, targets.masked_fill(~real, SPECIAL.pad), 0.1, weight)
    assert logits.grad is not None
    assert not logits.grad[~real].any()
    alone, without = logits.detach()[real].requires_grad_(), logits.grad[real]
    logits.grad = None
    assert_alike(alone, targets[real], 0.1, weight)
    torch.testing.assert_close(alone.grad, without)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(("rows", "words", "block"), SIZES)
def test_cross_entropy(rows: int, words: int, block: int, smoothing: float) -> None:
    assert_alike(*some(rows, words), smoothing, None, block=block)


@pytest.mark.parametrize("weight", [1.0, 5.0])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(("rows", "words", "block"), SIZES[1:])
def test_r_drop(rows: int, words: int, block: int, smoothing: float, weight: float) -> None:
    assert_alike(*some(rows, words), smoothing, weight, block=block)


@pytest.mark.parametrize("weight", [None, 5.0])
@pytest.mark.parametrize(("dtype", "step"), [(torch.bfloat16, 2**-7), (torch.float16, 2**-10)])
def test_half_precision_is_rounded_at_the_end_alone(
    dtype: torch.dtype, step: float, weight: float | None
) -> None:
    # By half a step when the gradient is kept, and by half a step when it is scaled; the
    # interpreter loses up to a whole step each time, since it cuts bfloat16 off.
    steps = 2 if DEVICE == "cpu" and dtype == torch.bfloat16 else 1
    assert_alike(*some(4, 37, dtype), 0.1, weight, rtol=steps * step)


@pytest.mark.parametrize("weight", [None, 5.0])
@pytest.mark.parametrize("scale", [1e4, -1e4])
def test_extreme_logits_give_numbers(scale: float, weight: float | None) -> None:
    logits, targets = some(4, 37)
    extreme = torch.zeros_like(logits)
    extreme[0, 0], extreme[1, 36], extreme[2], extreme[3, 5] = scale, -scale, scale, scale
    # Numbers near 1e4 are a thousandth apart in float32.
    assert_alike(extreme.requires_grad_(), targets, 0.1, weight, rtol=1e-3, atol=1e-3)


def test_what_agrees_does_not_diverge() -> None:
    logits, targets = some(3, 37)
    twice, both = logits.detach().repeat(2, 1).requires_grad_(), targets.repeat(2)
    alone = fused(logits, targets, 0.1, None)
    found = fused(twice, both, 0.1, 5.0)
    torch.testing.assert_close(found.total, alone.total)
    alone.total.backward()
    found.total.backward()
    assert twice.grad is not None
    torch.testing.assert_close(twice.grad.chunk(2)[0] * 2, logits.grad)


@pytest.mark.parametrize("weight", [None, 5.0])
def test_only_the_total_learns_and_only_where_learning_is_on(weight: float | None) -> None:
    logits, targets = some(4, 37)
    learning = fused(logits, targets, 0.1, weight)
    assert learning.total.requires_grad
    assert not learning.nll.requires_grad
    for off in (torch.no_grad(), torch.inference_mode()):
        with off:
            found = fused(logits, targets, 0.1, weight)
        assert not found.total.requires_grad
        assert (found.total.item(), found.nll.item()) == (
            learning.total.item(),
            learning.nll.item(),
        )


def test_going_back_twice_is_twice_the_gradient() -> None:
    logits, targets = some(4, 37)
    loss = fused(logits, targets, 0.1, 5.0)
    loss.total.backward(retain_graph=True)
    assert logits.grad is not None
    once = logits.grad.clone()
    loss.total.backward()
    torch.testing.assert_close(logits.grad, 2 * once)


def test_logits_may_lie_in_any_order() -> None:
    logits, targets = some(4, 37)
    expected = fused(logits, targets, 0.1, None).total
    columns = logits.detach().T.contiguous().T
    assert torch.equal(fused(columns, targets, 0.1, None).total, expected)


@pytest.mark.parametrize("target", [-1, 37])
def test_a_target_outside_the_vocabulary_is_not_a_number(target: int) -> None:
    logits, targets = some(4, 37)
    targets[2] = target
    assert fused(logits, targets, 0.1, None).total.isnan()


def updated(model: Transformer, weight: float) -> tuple[list[float], list[Tensor]]:
    """Loss, likelihood and gradients of an update."""
    config = TrainingConfig(r_drop=weight, clip_norm=0.0, precision="float32")
    optimizer = make_optimizer(model, config)
    done = Updater(model.train(), optimizer, Objective(config))([pairs(4)], step=1, rate=0.0)
    gradients = [weights.grad for weights in model.parameters() if weights.grad is not None]
    return done.sums.tolist(), gradients


@pytest.mark.parametrize("weight", [0.0, 5.0])
def test_an_update_is_the_same(weight: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "_has_kernel", lambda logits: False)
    expected, gradients = updated(small_model(dropout=0.3).to(DEVICE), weight)
    monkeypatch.setattr(losses, "_has_kernel", lambda logits: True)
    found, also = updated(small_model(dropout=0.3).to(DEVICE), weight)
    assert found == pytest.approx(expected, rel=1e-5)
    for one, other in zip(gradients, also, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)


def test_a_cpu_needs_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "regard.training.loss_kernel", None)  # cannot be imported
    model, batch = small_model(), pairs(4)
    assert losses.token_loss(model(batch), 0.1).total > 0
    assert losses.token_loss(model(batch.twice()), 0.1, 5.0).total > 0


@needs_gpu
@pytest.mark.parametrize("weight", [None, 5.0])
@pytest.mark.parametrize(("rows", "words"), [(16384, 8000), (4096, 32768), (4096, 31999)])
def test_real_sizes(rows: int, words: int, weight: float | None) -> None:
    from regard.training.loss_kernel import BLOCK

    logits, targets = some(rows, words, torch.bfloat16)
    assert_alike(logits, targets, 0.1, weight, block=BLOCK, rtol=2**-7)
