"""Fused Triton kernels of dropout, residual connection and norm: one pass over memory.

PyTorch's kernels would read and write the activations five times, partly in float32. Here they are
read and written once, with post-norm in half precision; sums and norms are computed in float32. The
dropout mask is recomputed in backward instead of stored.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

_MAX_WIDTH = 4096  # features of a token, which must fit into registers
_TILE = 2048  # numbers per program: 16 for each thread of 4 warps
_FEW = 512  # with at most so many tokens, as in a decoding step, each has its own program
_PROGRAMS = 512  # in backward; each sums the gradients of the norm's weights over many tokens
_HALF = (torch.float16, torch.bfloat16)


def is_supported(x: Tensor, norm: nn.Module) -> bool:
    """Whether the kernels support this norm, dtype and size."""
    half = torch.is_autocast_enabled(x.device.type) or x.dtype in _HALF
    small = x.shape[-1] <= _MAX_WIDTH and x.numel() < 2**31
    return half and small and isinstance(norm, nn.LayerNorm | nn.RMSNorm)


def add(x: Tensor, y: Tensor, dropout: float) -> Tensor:
    """`x + dropout(y)`, in the dtype of x; (N, D) both."""
    result: Tensor = _Add.apply(x.contiguous(), y.contiguous(), dropout)
    return result


def add_norm(
    x: Tensor, y: Tensor | None, norm: nn.LayerNorm | nn.RMSNorm, dropout: float = 0.0
) -> Tensor:
    """`norm(x + dropout(y))`, or `norm(x)`, in half precision; (N, D) all."""
    bias = norm.bias if isinstance(norm, nn.LayerNorm) else None
    eps = norm.eps if norm.eps is not None else torch.finfo(torch.float32).eps
    y = None if y is None else y.contiguous()
    result: Tensor = _AddNorm.apply(x.contiguous(), y, norm.weight, bias, eps, dropout)
    return result


class _Add(torch.autograd.Function):
    """Dropout and residual connection."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, dropout: float) -> Tensor:
        seed = _seed(x, dropout)
        result = torch.empty_like(x)
        _launch_add(x, y, seed, result, dropout, adds=True)
        ctx.save_for_backward(seed)
        ctx.dropout, ctx.dtype = dropout, y.dtype
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        (seed,) = ctx.saved_tensors
        gradient = gradient.contiguous()
        y_gradient = torch.empty_like(gradient, dtype=ctx.dtype)
        _launch_add(gradient, gradient, seed, y_gradient, ctx.dropout, adds=False)
        return gradient, y_gradient, None


class _AddNorm(torch.autograd.Function):
    """Dropout, residual connection and norm."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        y: Tensor | None,
        weight: Tensor,
        bias: Tensor | None,
        eps: float,
        dropout: float,
    ) -> Tensor:
        rows, width = x.numel() // x.shape[-1], x.shape[-1]
        seed = _seed(x, dropout)
        total = x if y is None else torch.empty_like(x)
        result = torch.empty_like(x, dtype=_half(x))
        moments = torch.empty(2, rows, dtype=torch.float32, device=x.device)
        tile = _tile(width, rows)
        _add_norm_kernel[(triton.cdiv(rows, tile["rows"]),)](
            *(x, x if y is None else y, weight, weight if bias is None else bias, seed),
            *(total, result, moments, rows, width, eps, dropout),
            **tile,
            adds=y is not None,
            drops=dropout > 0,
            centres=bias is not None,
        )
        ctx.save_for_backward(total, weight, seed, moments)
        ctx.dropout, ctx.dtypes = dropout, (x.dtype, y.dtype if y is not None else None)
        ctx.centres = bias is not None
        return result

    @staticmethod
    def backward(
        ctx: Any, gradient: Tensor
    ) -> tuple[Tensor, Tensor | None, Tensor, Tensor | None, None, None]:
        total, weight, seed, moments = ctx.saved_tensors
        gradient = gradient.contiguous()
        rows, width = total.numel() // total.shape[-1], total.shape[-1]
        x_gradient = torch.empty_like(total)
        y_gradient = None if ctx.dtypes[1] is None else torch.empty_like(total, dtype=ctx.dtypes[1])
        if y_gradient is not None and not ctx.dropout and y_gradient.dtype == x_gradient.dtype:
            y_gradient = x_gradient
        tile = _tile(width, rows)
        programs = min(_PROGRAMS, triton.cdiv(rows, tile["rows"]))
        sums = torch.empty(programs, 2, width, dtype=torch.float32, device=total.device)
        _add_norm_backward_kernel[(programs,)](
            *(
                gradient,
                total,
                weight,
                seed,
                moments,
                x_gradient,
                x_gradient if y_gradient is None else y_gradient,
                sums,
            ),
            *(rows, width, ctx.dropout),
            **tile,
            adds=y_gradient is not None and y_gradient is not x_gradient,
            drops=ctx.dropout > 0,
            centres=ctx.centres,
        )
        weight_gradient, bias_gradient = sums.sum(0).to(weight.dtype)
        return (
            x_gradient,
            y_gradient,
            weight_gradient,
            bias_gradient if ctx.centres else None,
            None,
            None,
        )


def _half(x: Tensor) -> torch.dtype:
    """The dtype of the input of a sub-layer."""
    return x.dtype if x.dtype in _HALF else torch.get_autocast_dtype(x.device.type)


def _seed(x: Tensor, dropout: float) -> Tensor:
    """A seed drawn on the device, so that each replay of a CUDA graph draws a new one; (1,)"""
    if not dropout:
        return x  # unused, but the kernel needs a pointer
    return torch.randint(2**62, (1,), device=x.device)


def _tile(width: int, rows: int) -> dict[str, Any]:
    block = triton.next_power_of_2(width)
    # `enable_fp_fusion` is the old default; newer versions warn if it is not set.
    return {
        "rows": triton.next_power_of_2(max(1, min(_TILE // block, rows // _FEW))),
        "block": block,
        "num_warps": 4,
        "enable_fp_fusion": True,
    }


def _launch_add(
    x: Tensor, y: Tensor, seed: Tensor, result: Tensor, dropout: float, *, adds: bool
) -> None:
    size = x.numel()
    _add_kernel[(triton.cdiv(size, _TILE),)](
        *(x, y, seed, result, size, dropout),
        adds=adds,
        drops=dropout > 0,
        block=_TILE,
        num_warps=4,
        enable_fp_fusion=True,
    )


@triton.jit
def _add_kernel(
    x,
    y,
    seed,
    result,
    size,
    dropout,
    adds: tl.constexpr,
    drops: tl.constexpr,
    block: tl.constexpr,
):
    """`x + dropout(y)`, or `dropout(y)` alone."""
    offset = tl.program_id(0) * block + tl.arange(0, block)
    mask = offset < size
    total = tl.load(y + offset, mask=mask, other=0.0).to(tl.float32)
    if drops:
        total *= _dropout_scale(seed, offset, dropout)
    if adds:
        total += tl.load(x + offset, mask=mask, other=0.0).to(tl.float32)
    tl.store(result + offset, total.to(result.dtype.element_ty), mask=mask)


@triton.jit
def _add_norm_kernel(
    x,
    y,
    weight,
    bias,
    seed,
    total,
    result,
    moments,
    count,
    width,
    eps,
    dropout,
    rows: tl.constexpr,
    block: tl.constexpr,
    adds: tl.constexpr,
    drops: tl.constexpr,
    centres: tl.constexpr,
):
    """`norm(x + dropout(y))` of some tokens; moments: means and inverse standard deviations."""
    row = tl.program_id(0) * rows + tl.arange(0, rows)
    column = tl.arange(0, block)
    offset = row[:, None] * width + column[None, :]
    mask = (row < count)[:, None] & (column < width)[None, :]
    value = tl.load(x + offset, mask=mask, other=0.0).to(tl.float32)
    if adds:
        change = tl.load(y + offset, mask=mask, other=0.0).to(tl.float32)
        if drops:
            change *= _dropout_scale(seed, offset, dropout)
        value += change
        tl.store(total + offset, value.to(total.dtype.element_ty), mask=mask)
    if centres:
        mean = tl.sum(value, 1) / width
        tl.store(moments + row, mean, mask=row < count)
        value = tl.where(mask, value - mean[:, None], 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(value * value, 1) / width + eps)
    tl.store(moments + count + row, scale, mask=row < count)
    value = value * scale[:, None]
    value *= tl.load(weight + column, mask=column < width, other=0.0).to(tl.float32)[None, :]
    if centres:
        value += tl.load(bias + column, mask=column < width, other=0.0).to(tl.float32)[None, :]
    tl.store(result + offset, value.to(result.dtype.element_ty), mask=mask)


@triton.jit
def _add_norm_backward_kernel(
    gradient,
    total,
    weight,
    seed,
    moments,
    x_gradient,
    y_gradient,
    sums,
    count,
    width,
    dropout,
    rows: tl.constexpr,
    block: tl.constexpr,
    adds: tl.constexpr,
    drops: tl.constexpr,
    centres: tl.constexpr,
):
    """Gradients of a strided set of tokens, and their sums for the norm's weights."""
    column = tl.arange(0, block)
    valid = column < width
    weights = tl.load(weight + column, mask=valid, other=0.0).to(tl.float32)[None, :]
    weight_gradient = tl.zeros((rows, block), tl.float32)
    bias_gradient = tl.zeros((rows, block), tl.float32)
    for first in range(tl.program_id(0) * rows, count, tl.num_programs(0) * rows):
        row = first + tl.arange(0, rows)
        offset = row[:, None] * width + column[None, :]
        mask = (row < count)[:, None] & valid[None, :]
        grad = tl.load(gradient + offset, mask=mask, other=0.0).to(tl.float32)
        normal = tl.load(total + offset, mask=mask, other=0.0).to(tl.float32)
        scale = tl.load(moments + count + row, mask=row < count, other=0.0)[:, None]
        if centres:
            normal -= tl.load(moments + row, mask=row < count, other=0.0)[:, None]
        normal = tl.where(mask, normal * scale, 0.0)
        weight_gradient += grad * normal
        bias_gradient += grad
        grad *= weights
        change = grad - normal * (tl.sum(grad * normal, 1) / width)[:, None]
        if centres:
            change -= (tl.sum(grad, 1) / width)[:, None]
        change *= scale
        tl.store(x_gradient + offset, change.to(x_gradient.dtype.element_ty), mask=mask)
        if adds:
            if drops:
                change *= _dropout_scale(seed, offset, dropout)
            tl.store(y_gradient + offset, change.to(y_gradient.dtype.element_ty), mask=mask)
    output = sums + tl.program_id(0) * 2 * width + column
    tl.store(output, tl.sum(weight_gradient, 0), mask=valid)
    tl.store(output + width, tl.sum(bias_gradient, 0), mask=valid)


@triton.jit
def _dropout_scale(seed, offset, dropout):
    """Dropout of ones, a function of seed and offset: the same in both passes.

    Two rounds of multiplying and shifting are random enough for dropout; Triton's generator would
    take as long as the memory accesses.
    """
    bits = tl.load(seed)
    mixed = (offset.to(tl.uint32) ^ bits.to(tl.uint32)) * 0x9E3779B1
    mixed = mixed ^ (bits >> 32).to(tl.uint32)
    mixed = (mixed ^ (mixed >> 16)) * 0x7FEB352D
    mixed = (mixed ^ (mixed >> 15)) * 0x846CA68B
    mixed = mixed ^ (mixed >> 16)
    return tl.where(mixed.to(tl.float32) >= dropout * 4294967296.0, 1.0 / (1.0 - dropout), 0.0)
