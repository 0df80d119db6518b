"""The losses of `losses.py` as Triton kernels: logits are read once, their gradient written once.

The plain form passes over float32 logits a dozen times. Here one program takes one row (of R-Drop,
two): the row stays in the cache between the passes, and the gradient is made while it is there.
Each program writes sums of its own and PyTorch adds them, so the same batch gives the same loss.
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
    logits: Tensor, targets: Tensor, smoothing: float, weight: float | None, block: int = BLOCK
) -> tuple[Tensor, Tensor]:
    """What is minimised, and the negative log-likelihood; with a weight, those of R-Drop.

    logits (N, V) of any float type, targets (N,) -> two sums in float32; only the first can learn
    """
    learn = logits.requires_grad and torch.is_grad_enabled()
    arguments = (logits.contiguous(), targets.contiguous(), smoothing, weight, block, learn)
    total, nll = _FusedLoss.apply(*arguments)
    return total, nll


class _FusedLoss(torch.autograd.Function):
    """A loss that knows its gradient as soon as it knows itself."""

    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        targets: Tensor,
        smoothing: float,
        weight: float | None,
        block: int,
        learn: bool,
    ) -> tuple[Tensor, Tensor]:
        rows, words = logits.shape
        assert weight is None or rows % 2 == 0, "R-Drop compares two passes"
        programs = rows if weight is None else rows // 2
        sums = torch.empty(2, programs, dtype=torch.float32, device=logits.device)
        gradient = torch.empty_like(logits) if learn else logits  # a pointer must point somewhere
        arguments = (logits, targets, sums, gradient, words, float(smoothing))
        block = min(block, triton.next_power_of_2(words))
        options = {"block": block, "learn": learn, **_launch(block)}
        if weight is None:
            _single[(programs,)](*arguments, **options)
        else:
            _pair[(programs,)](*arguments, float(weight), **options)
        total, nll = sums[0].sum(), sums[1].sum()
        if learn:
            ctx.save_for_backward(gradient)
        ctx.mark_non_differentiable(nll)
        ctx.set_materialize_grads(False)
        return total, nll

    @staticmethod
    def backward(ctx: Any, factor: Tensor, _: None) -> tuple[Tensor, None, None, None, None, None]:
        (gradient,) = ctx.saved_tensors
        # Not `gradient * factor`, which would round the factor to the gradient's few bits.
        scaled, size = torch.empty_like(gradient), gradient.numel()
        grid = (triton.cdiv(size, BLOCK),)
        _scale[grid](gradient, factor, scaled, size, block=BLOCK, **_launch(BLOCK))
        return scaled, None, None, None, None, None


def _launch(block: int) -> dict[str, int]:
    # Fusing is what Triton always did; unsaid, newer versions warn that this will change.
    return {"num_warps": max(1, block // 512), "enable_fp_fusion": True}


@triton.jit
def _single(
    logits,
    targets,
    sums,
    gradient,
    words,
    smoothing,
    block: tl.constexpr,
    learn: tl.constexpr,
):
    """Smoothed cross-entropy of one row."""
    place = tl.program_id(0).to(tl.int64)  # rows times words may pass 2^31
    row = logits + place * words
    target = tl.load(targets + place).to(tl.int32)
    top, mass, mean = _summary(row, words, block)
    real = tl.where(target == _PAD, 0.0, 1.0)
    nll = _nll(row, target, words, top, mass)
    tl.store(sums + place, real * ((1.0 - smoothing) * nll + smoothing * (top - mean + mass)))
    tl.store(sums + tl.num_programs(0) + place, real * nll)
    if learn:
        slope = gradient + place * words
        for start in range(0, words, block):
            column = start + tl.arange(0, block)
            p = tl.exp(_log_probs(row, column, words, top, mass))
            change = real * _cross_entropy_slope(p, column, target, words, smoothing)
            tl.store(slope + column, change.to(slope.dtype.element_ty), mask=column < words)


@triton.jit
def _pair(
    logits,
    targets,
    sums,
    gradient,
    words,
    smoothing,
    weight,
    block: tl.constexpr,
    learn: tl.constexpr,
):
    """R-Drop for one token: its rows of both passes, p and q."""
    place = tl.program_id(0).to(tl.int64)
    again = place + tl.num_programs(0)
    row_p, row_q = logits + place * words, logits + again * words
    target_p = tl.load(targets + place).to(tl.int32)
    target_q = tl.load(targets + again).to(tl.int32)
    real = tl.where(target_p == _PAD, 0.0, 1.0)
    top_p, mass_p, mean_p = _summary(row_p, words, block)
    top_q, mass_q, mean_q = _summary(row_q, words, block)
    nll = _nll(row_p, target_p, words, top_p, mass_p) + _nll(row_q, target_q, words, top_q, mass_q)
    uniform = (top_p - mean_p + mass_p) + (top_q - mean_q + mass_q)
    kl_pq = 0.0
    kl_qp = 0.0
    both = 0.0
    for start in range(0, words, block):
        column = start + tl.arange(0, block)
        log_p = _log_probs(row_p, column, words, top_p, mass_p)
        log_q = _log_probs(row_q, column, words, top_q, mass_q)
        p, q = tl.exp(log_p), tl.exp(log_q)
        kl_pq += tl.sum(p * (log_p - log_q), 0)
        kl_qp += tl.sum(q * (log_q - log_p), 0)
        both += tl.sum((p - q) * (log_p - log_q), 0)  # no term is negative, so none cancels
    smoothed = (1.0 - smoothing) * nll + smoothing * uniform
    tl.store(sums + place, real * (smoothed / 2 + weight / 4 * both))
    tl.store(sums + tl.num_programs(0) + place, real * nll / 2)
    if learn:
        slope_p, slope_q = gradient + place * words, gradient + again * words
        for start in range(0, words, block):
            column = start + tl.arange(0, block)
            log_p = _log_probs(row_p, column, words, top_p, mass_p)
            log_q = _log_probs(row_q, column, words, top_q, mass_q)
            p, q = tl.exp(log_p), tl.exp(log_q)
            apart_p = p * (log_p - log_q) + (p - q) - p * kl_pq
            apart_q = q * (log_q - log_p) + (q - p) - q * kl_qp
            plain_p = _cross_entropy_slope(p, column, target_p, words, smoothing)
            plain_q = _cross_entropy_slope(q, column, target_q, words, smoothing)
            change_p = real * (plain_p / 2 + weight / 4 * apart_p)
            change_q = real * (plain_q / 2 + weight / 4 * apart_q)
            tl.store(slope_p + column, change_p.to(slope_p.dtype.element_ty), mask=column < words)
            tl.store(slope_q + column, change_q.to(slope_q.dtype.element_ty), mask=column < words)


@triton.jit
def _summary(row, words, block: tl.constexpr):
    """A row's highest logit, log(sum(exp(logit - highest))), and its mean.

    The first two make its logsumexp; added up, they would lose digits where logits are high.
    """
    top = -float("inf")
    mass = 0.0
    total = 0.0
    for start in range(0, words, block):
        column = start + tl.arange(0, block)
        x = tl.load(row + column, mask=column < words, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(top, tl.max(x, 0))
        mass = mass * tl.exp(top - higher) + tl.sum(tl.exp(x - higher), 0)
        total += tl.sum(tl.where(column < words, x, 0.0), 0)
        top = higher
    return top, tl.log(mass), total / words


@triton.jit
def _log_probs(row, column, words, top, mass):
    """Log-probabilities; 0 beyond the row, so that two rows agree there and nothing overflows."""
    x = tl.load(row + column, mask=column < words, other=0.0).to(tl.float32)
    return tl.where(column < words, x - top - mass, 0.0)


@triton.jit
def _nll(row, target, words, top, mass):
    known = (target >= 0) & (target < words)  # another target has no loss that is a number
    x = tl.load(row + target, mask=known, other=float("nan")).to(tl.float32)
    return top - x + mass


@triton.jit
def _cross_entropy_slope(p, column, target, words, smoothing):
    """The gradient of a row's smoothed cross-entropy with respect to its logits."""
    return p - tl.where(column == target, 1.0 - smoothing, 0.0) - smoothing / words


@triton.jit
def _scale(gradient, factor, scaled, size, block: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    x = tl.load(gradient + place, mask=place < size, other=0.0).to(tl.float32)
    result = x * tl.load(factor).to(tl.float32)
    tl.store(scaled + place, result.to(scaled.dtype.element_ty), mask=place < size)
