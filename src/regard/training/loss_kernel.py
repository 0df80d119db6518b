"""The losses of `losses.py` as fused Triton kernels: logits are read once, gradients written once.

The PyTorch implementation passes over float32 logits a dozen times. Here one program handles one
row (two for R-Drop): the row stays in the cache between the passes, and the gradient is computed
there. Programs write separate sums, which PyTorch adds, so the result is deterministic.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.text.special import SPECIAL

_PAD = tl.constexpr(SPECIAL.pad)
BLOCK = 4096  # columns at a time: 16 for each thread of 8 warps


def fused_loss(
    logits: Tensor,
    targets: Tensor,
    smoothing: float,
    r_drop_weight: float | None,
    block: int = BLOCK,
) -> tuple[Tensor, Tensor]:
    """The sums of the loss, with the R-Drop term if its weight is set, and of the NLL.

    logits (N, V) of any float type, targets (N,) -> two float32 sums; the first has a gradient
    """
    needs_grad = logits.requires_grad and torch.is_grad_enabled()
    arguments = (
        logits.contiguous(),
        targets.contiguous(),
        smoothing,
        r_drop_weight,
        block,
        needs_grad,
    )
    total, nll = _FusedLoss.apply(*arguments)
    return total, nll


class _FusedLoss(torch.autograd.Function):
    """A loss whose gradient is computed in the forward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        targets: Tensor,
        smoothing: float,
        r_drop_weight: float | None,
        block: int,
        needs_grad: bool,
    ) -> tuple[Tensor, Tensor]:
        rows, vocab_size = logits.shape
        assert r_drop_weight is None or rows % 2 == 0, "R-Drop compares two passes"
        programs = rows if r_drop_weight is None else rows // 2
        sums = torch.empty(2, programs, dtype=torch.float32, device=logits.device)
        gradient = torch.empty_like(logits) if needs_grad else logits  # an unused but valid pointer
        arguments = (logits, targets, sums, gradient, vocab_size, float(smoothing))
        block = min(block, triton.next_power_of_2(vocab_size))
        options = {"block": block, "needs_grad": needs_grad, **_launch(block)}
        if r_drop_weight is None:
            _single[(programs,)](*arguments, **options)
        else:
            _pair[(programs,)](*arguments, float(r_drop_weight), **options)
        total, nll = sums[0].sum(), sums[1].sum()
        if needs_grad:
            ctx.save_for_backward(gradient)
        ctx.mark_non_differentiable(nll)
        ctx.set_materialize_grads(False)
        return total, nll

    @staticmethod
    def backward(ctx: Any, factor: Tensor, _: None) -> tuple[Tensor, None, None, None, None, None]:
        (gradient,) = ctx.saved_tensors
        # Not `gradient * factor`, which would round the factor to the gradient's precision.
        scaled, size = torch.empty_like(gradient), gradient.numel()
        grid = (triton.cdiv(size, BLOCK),)
        _scale[grid](gradient, factor, scaled, size, block=BLOCK, **_launch(BLOCK))
        return scaled, None, None, None, None, None


def _launch(block: int) -> dict[str, int]:
    # Triton's default; newer versions warn unless it is explicit.
    return {"num_warps": max(1, block // 512), "enable_fp_fusion": True}


@triton.jit
def _single(
    logits,
    targets,
    sums,
    gradient,
    vocab_size,
    smoothing,
    block: tl.constexpr,
    needs_grad: tl.constexpr,
):
    """Cross-entropy with label smoothing of one row."""
    row_index = tl.program_id(0).to(tl.int64)  # rows * vocab_size may exceed 2^31
    row = logits + row_index * vocab_size
    target = tl.load(targets + row_index).to(tl.int32)
    maximum, log_sum, mean = _summary(row, vocab_size, block)
    valid = tl.where(target == _PAD, 0.0, 1.0)
    nll = _nll(row, target, vocab_size, maximum, log_sum)
    tl.store(
        sums + row_index, valid * ((1.0 - smoothing) * nll + smoothing * (maximum - mean + log_sum))
    )
    tl.store(sums + tl.num_programs(0) + row_index, valid * nll)
    if needs_grad:
        gradient_row = gradient + row_index * vocab_size
        for start in range(0, vocab_size, block):
            column = start + tl.arange(0, block)
            p = tl.exp(_log_probs(row, column, vocab_size, maximum, log_sum))
            value = valid * _cross_entropy_gradient(p, column, target, vocab_size, smoothing)
            tl.store(
                gradient_row + column,
                value.to(gradient_row.dtype.element_ty),
                mask=column < vocab_size,
            )


@triton.jit
def _pair(
    logits,
    targets,
    sums,
    gradient,
    vocab_size,
    smoothing,
    r_drop_weight,
    block: tl.constexpr,
    needs_grad: tl.constexpr,
):
    """R-Drop for one token: its rows p and q of the two passes."""
    row_index = tl.program_id(0).to(tl.int64)
    second_index = row_index + tl.num_programs(0)
    row_p, row_q = logits + row_index * vocab_size, logits + second_index * vocab_size
    target_p = tl.load(targets + row_index).to(tl.int32)
    target_q = tl.load(targets + second_index).to(tl.int32)
    valid = tl.where(target_p == _PAD, 0.0, 1.0)
    max_p, log_sum_p, mean_p = _summary(row_p, vocab_size, block)
    max_q, log_sum_q, mean_q = _summary(row_q, vocab_size, block)
    nll = _nll(row_p, target_p, vocab_size, max_p, log_sum_p)
    nll += _nll(row_q, target_q, vocab_size, max_q, log_sum_q)
    uniform = (max_p - mean_p + log_sum_p) + (max_q - mean_q + log_sum_q)
    kl_pq = 0.0
    kl_qp = 0.0
    divergence = 0.0
    for start in range(0, vocab_size, block):
        column = start + tl.arange(0, block)
        log_p = _log_probs(row_p, column, vocab_size, max_p, log_sum_p)
        log_q = _log_probs(row_q, column, vocab_size, max_q, log_sum_q)
        p, q = tl.exp(log_p), tl.exp(log_q)
        kl_pq += tl.sum(p * (log_p - log_q), 0)
        kl_qp += tl.sum(q * (log_q - log_p), 0)
        divergence += tl.sum((p - q) * (log_p - log_q), 0)  # no term is negative: no cancellation
    smoothed = (1.0 - smoothing) * nll + smoothing * uniform
    tl.store(sums + row_index, valid * (smoothed / 2 + r_drop_weight / 4 * divergence))
    tl.store(sums + tl.num_programs(0) + row_index, valid * nll / 2)
    if needs_grad:
        grad_p, grad_q = gradient + row_index * vocab_size, gradient + second_index * vocab_size
        for start in range(0, vocab_size, block):
            column = start + tl.arange(0, block)
            log_p = _log_probs(row_p, column, vocab_size, max_p, log_sum_p)
            log_q = _log_probs(row_q, column, vocab_size, max_q, log_sum_q)
            p, q = tl.exp(log_p), tl.exp(log_q)
            divergence_p = p * (log_p - log_q) + (p - q) - p * kl_pq
            divergence_q = q * (log_q - log_p) + (q - p) - q * kl_qp
            cross_entropy_p = _cross_entropy_gradient(p, column, target_p, vocab_size, smoothing)
            cross_entropy_q = _cross_entropy_gradient(q, column, target_q, vocab_size, smoothing)
            value_p = valid * (cross_entropy_p / 2 + r_drop_weight / 4 * divergence_p)
            value_q = valid * (cross_entropy_q / 2 + r_drop_weight / 4 * divergence_q)
            is_token = column < vocab_size
            tl.store(grad_p + column, value_p.to(grad_p.dtype.element_ty), mask=is_token)
            tl.store(grad_q + column, value_q.to(grad_q.dtype.element_ty), mask=is_token)


@triton.jit
def _summary(row, vocab_size, block: tl.constexpr):
    """The maximum of a row, log(sum(exp(logit - maximum))), and the mean.

    The sum of the first two is the logsumexp; separate values are more precise for large logits.
    """
    maximum = -float("inf")
    exp_sum = 0.0
    total = 0.0
    for start in range(0, vocab_size, block):
        column = start + tl.arange(0, block)
        x = tl.load(row + column, mask=column < vocab_size, other=-float("inf")).to(tl.float32)
        new_maximum = tl.maximum(maximum, tl.max(x, 0))
        exp_sum = exp_sum * tl.exp(maximum - new_maximum) + tl.sum(tl.exp(x - new_maximum), 0)
        total += tl.sum(tl.where(column < vocab_size, x, 0.0), 0)
        maximum = new_maximum
    return maximum, tl.log(exp_sum), total / vocab_size


@triton.jit
def _log_probs(row, column, vocab_size, maximum, log_sum):
    """Log-probabilities; 0 beyond the row, which adds nothing to a divergence or an overflow."""
    x = tl.load(row + column, mask=column < vocab_size, other=0.0).to(tl.float32)
    return tl.where(column < vocab_size, x - maximum - log_sum, 0.0)


@triton.jit
def _nll(row, target, vocab_size, maximum, log_sum):
    valid = (target >= 0) & (target < vocab_size)  # an invalid target gives NaN
    x = tl.load(row + target, mask=valid, other=float("nan")).to(tl.float32)
    return maximum - x + log_sum


@triton.jit
def _cross_entropy_gradient(p, column, target, vocab_size, smoothing):
    """The gradient of a row's smoothed cross-entropy with respect to its logits."""
    return p - tl.where(column == target, 1.0 - smoothing, 0.0) - smoothing / vocab_size


@triton.jit
def _scale(gradient, factor, scaled, size, block: tl.constexpr):
    offset = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    x = tl.load(gradient + offset, mask=offset < size, other=0.0).to(tl.float32)
    result = x * tl.load(factor).to(tl.float32)
    tl.store(scaled + offset, result.to(scaled.dtype.element_ty), mask=offset < size)
