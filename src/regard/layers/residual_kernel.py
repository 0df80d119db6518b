"""Dropout, residual connection and norm of `residual.py` as Triton kernels: one pass over memory.

By PyTorch's own kernels the numbers of a sub-layer go to memory and back five times, some of them
in float32. Here they are read and written once, in half precision where the stream is normed after
each sub-layer; sums and norms are made in float32. What was dropped is drawn again, not kept.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

_WIDEST = 4096  # numbers of a token: they have to fit in registers
_TILE = 2048  # numbers at a time: 16 for each thread of 4 warps
_FEW = 512  # tokens: of so few, as in a step of decoding, each gets a program of its own
_PROGRAMS = 512  # backward; each adds up gradients of the norm's weights over many tokens
_HALF = (torch.float16, torch.bfloat16)


def fits(x: Tensor, norm: nn.Module) -> bool:
    """Whether the kernels know the norm, and precision and size allow them."""
    half = torch.is_autocast_enabled(x.device.type) or x.dtype in _HALF
    small = x.shape[-1] <= _WIDEST and x.numel() < 2**31
    return half and small and isinstance(norm, nn.LayerNorm | nn.RMSNorm)


def added(x: Tensor, y: Tensor, dropout: float) -> Tensor:
    """`x + dropout(y)`, as precise as x; (N, D) both."""
    result: Tensor = _Added.apply(x.contiguous(), y.contiguous(), dropout)
    return result


def normed(
    x: Tensor, y: Tensor | None, norm: nn.LayerNorm | nn.RMSNorm, dropout: float = 0.0
) -> Tensor:
    """`norm(x + dropout(y))`, or `norm(x)`, in half precision; (N, D) all."""
    bias = norm.bias if isinstance(norm, nn.LayerNorm) else None
    eps = norm.eps if norm.eps is not None else torch.finfo(torch.float32).eps
    y = None if y is None else y.contiguous()
    result: Tensor = _Normed.apply(x.contiguous(), y, norm.weight, bias, eps, dropout)
    return result


class _Added(torch.autograd.Function):
    """Dropout and residual connection."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, dropout: float) -> Tensor:
        seed = _seed(x, dropout)
        result = torch.empty_like(x)
        _launch_added(x, y, seed, result, dropout, adds=True)
        ctx.save_for_backward(seed)
        ctx.dropout, ctx.dtype = dropout, y.dtype
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        (seed,) = ctx.saved_tensors
        gradient = gradient.contiguous()
        of_y = torch.empty_like(gradient, dtype=ctx.dtype)
        _launch_added(gradient, gradient, seed, of_y, ctx.dropout, adds=False)
        return gradient, of_y, None


class _Normed(torch.autograd.Function):
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
        _normed[(triton.cdiv(rows, tile["rows"]),)](
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
        of_x = torch.empty_like(total)
        of_y = None if ctx.dtypes[1] is None else torch.empty_like(total, dtype=ctx.dtypes[1])
        if of_y is not None and not ctx.dropout and of_y.dtype == of_x.dtype:
            of_y = of_x
        tile = _tile(width, rows)
        programs = min(_PROGRAMS, triton.cdiv(rows, tile["rows"]))
        sums = torch.empty(programs, 2, width, dtype=torch.float32, device=total.device)
        _normed_backward[(programs,)](
            *(gradient, total, weight, seed, moments, of_x, of_x if of_y is None else of_y, sums),
            *(rows, width, ctx.dropout),
            **tile,
            adds=of_y is not None and of_y is not of_x,
            drops=ctx.dropout > 0,
            centres=ctx.centres,
        )
        of_weight, of_bias = sums.sum(0).to(weight.dtype)
        return of_x, of_y, of_weight, of_bias if ctx.centres else None, None, None


def _half(x: Tensor) -> torch.dtype:
    """The precision of what a sub-layer reads."""
    return x.dtype if x.dtype in _HALF else torch.get_autocast_dtype(x.device.type)


def _seed(x: Tensor, dropout: float) -> Tensor:
    """Drawn on the device, so that recorded work draws another one each time; (1,)"""
    if not dropout:
        return x  # a pointer must point somewhere
    return torch.randint(2**62, (1,), device=x.device)


def _tile(width: int, rows: int) -> dict[str, Any]:
    block = triton.next_power_of_2(width)
    # Fusing is what Triton always did; unsaid, newer versions warn that this will change.
    return {
        "rows": triton.next_power_of_2(max(1, min(_TILE // block, rows // _FEW))),
        "block": block,
        "num_warps": 4,
        "enable_fp_fusion": True,
    }


def _launch_added(
    x: Tensor, y: Tensor, seed: Tensor, result: Tensor, dropout: float, *, adds: bool
) -> None:
    size = x.numel()
    _added[(triton.cdiv(size, _TILE),)](
        *(x, y, seed, result, size, dropout),
        adds=adds,
        drops=dropout > 0,
        block=_TILE,
        num_warps=4,
        enable_fp_fusion=True,
    )


@triton.jit
def _added(
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
    """Some numbers of `x + dropout(y)`, or of `dropout(y)` alone."""
    place = tl.program_id(0) * block + tl.arange(0, block)
    real = place < size
    found = tl.load(y + place, mask=real, other=0.0).to(tl.float32)
    if drops:
        found *= _kept(seed, place, dropout)
    if adds:
        found += tl.load(x + place, mask=real, other=0.0).to(tl.float32)
    tl.store(result + place, found.to(result.dtype.element_ty), mask=real)


@triton.jit
def _normed(
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
    """`norm(x + dropout(y))` of some tokens; moments: means, and one over standard deviations."""
    row = tl.program_id(0) * rows + tl.arange(0, rows)
    column = tl.arange(0, block)
    place = row[:, None] * width + column[None, :]
    real = (row < count)[:, None] & (column < width)[None, :]
    found = tl.load(x + place, mask=real, other=0.0).to(tl.float32)
    if adds:
        change = tl.load(y + place, mask=real, other=0.0).to(tl.float32)
        if drops:
            change *= _kept(seed, place, dropout)
        found += change
        tl.store(total + place, found.to(total.dtype.element_ty), mask=real)
    if centres:
        mean = tl.sum(found, 1) / width
        tl.store(moments + row, mean, mask=row < count)
        found = tl.where(real, found - mean[:, None], 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(found * found, 1) / width + eps)
    tl.store(moments + count + row, scale, mask=row < count)
    found = found * scale[:, None]
    found *= tl.load(weight + column, mask=column < width, other=0.0).to(tl.float32)[None, :]
    if centres:
        found += tl.load(bias + column, mask=column < width, other=0.0).to(tl.float32)[None, :]
    tl.store(result + place, found.to(result.dtype.element_ty), mask=real)


@triton.jit
def _normed_backward(
    gradient,
    total,
    weight,
    seed,
    moments,
    of_x,
    of_y,
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
    """Gradients of every so many tokens, and their part of the gradients of the norm's weights."""
    column = tl.arange(0, block)
    known = column < width
    weights = tl.load(weight + column, mask=known, other=0.0).to(tl.float32)[None, :]
    of_weight = tl.zeros((rows, block), tl.float32)
    of_bias = tl.zeros((rows, block), tl.float32)
    for first in range(tl.program_id(0) * rows, count, tl.num_programs(0) * rows):
        row = first + tl.arange(0, rows)
        place = row[:, None] * width + column[None, :]
        real = (row < count)[:, None] & known[None, :]
        slope = tl.load(gradient + place, mask=real, other=0.0).to(tl.float32)
        normal = tl.load(total + place, mask=real, other=0.0).to(tl.float32)
        scale = tl.load(moments + count + row, mask=row < count, other=0.0)[:, None]
        if centres:
            normal -= tl.load(moments + row, mask=row < count, other=0.0)[:, None]
        normal = tl.where(real, normal * scale, 0.0)
        of_weight += slope * normal
        of_bias += slope
        slope *= weights
        change = slope - normal * (tl.sum(slope * normal, 1) / width)[:, None]
        if centres:
            change -= (tl.sum(slope, 1) / width)[:, None]
        change *= scale
        tl.store(of_x + place, change.to(of_x.dtype.element_ty), mask=real)
        if adds:
            if drops:
                change *= _kept(seed, place, dropout)
            tl.store(of_y + place, change.to(of_y.dtype.element_ty), mask=real)
    own = sums + tl.program_id(0) * 2 * width + column
    tl.store(own, tl.sum(of_weight, 0), mask=known)
    tl.store(own + width, tl.sum(of_bias, 0), mask=known)


@triton.jit
def _kept(seed, place, dropout):
    """What dropout makes of ones: a function of seed and place, so drawn twice alike.

    Two rounds of multiplying and shifting mix well enough here; Triton's own generator takes as
    long as the memory does.
    """
    drawn = tl.load(seed)
    mixed = (place.to(tl.uint32) ^ drawn.to(tl.uint32)) * 0x9E3779B1
    mixed = mixed ^ (drawn >> 32).to(tl.uint32)
    mixed = (mixed ^ (mixed >> 16)) * 0x7FEB352D
    mixed = (mixed ^ (mixed >> 15)) * 0x846CA68B
    mixed = mixed ^ (mixed >> 16)
    return tl.where(mixed.to(tl.float32) >= dropout * 4294967296.0, 1.0 / (1.0 - dropout), 0.0)
