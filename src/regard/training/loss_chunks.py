"""The losses of `losses.py` straight from hidden states, a few hundred rows of logits at a time.

All logits of a batch are its largest tensor by far, and reading and writing them is slow where
memory is. A chunk stays in the cache from its product to its gradient, which is made at once and
passed on to the hidden states and the weights; no logits are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.text.special import SPECIAL

_NUMBERS = 2**22  # in a chunk: 16 MB in float32


def chunked_loss(
    hidden: Tensor,
    targets: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    smoothing: float,
    r_drop: float | None,
) -> tuple[Tensor, Tensor]:
    """What is minimised, and the negative log-likelihood; with a weight, those of R-Drop.

    hidden (N, D), targets (N,), weight (V, D), bias (V,) -> two sums; only the first can learn
    """
    kind = hidden.device.type
    half = torch.is_autocast_enabled(kind)
    dtype = torch.get_autocast_dtype(kind) if half else hidden.dtype
    learn = torch.is_grad_enabled() and any(
        part is not None and part.requires_grad for part in (hidden, weight, bias)
    )
    with torch.autocast(kind, enabled=False):
        total, nll = _ChunkedLoss.apply(  # type: ignore[no-untyped-call]
            hidden, weight, bias, targets, smoothing, r_drop, dtype, learn
        )
    return total, nll


class _ChunkedLoss(torch.autograd.Function):
    """A loss that knows its gradients as soon as it knows itself."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
        r_drop: float | None,
        dtype: torch.dtype,
        learn: bool,
    ) -> tuple[Tensor, Tensor]:
        passes = 1 if r_drop is None else 2
        rows, factors = hidden.to(dtype), weight.to(dtype)
        gradients = _Gradients.of(hidden, weight, bias) if learn else None
        sums = hidden.new_zeros(2, dtype=_full(hidden.dtype))
        size = len(rows) // passes
        step = max(1, _NUMBERS // len(weight) // passes)
        for begin in range(0, size, step):
            places = [
                slice(start + begin, start + min(begin + step, size))
                for start in range(0, len(rows), size)
            ]
            logs = [_log_probs(rows[place], factors, bias) for place in places]
            goals = [targets[place] for place in places]
            sums += _sums(logs, goals, smoothing, r_drop)
            if gradients:
                for place, slope in zip(
                    places, _slopes(logs, goals, smoothing, r_drop), strict=True
                ):
                    gradients.add(place, slope, rows, factors)
        if gradients:
            ctx.save_for_backward(gradients.hidden, gradients.weight, gradients.bias)
        total, nll = sums.unbind()
        ctx.mark_non_differentiable(nll)
        ctx.set_materialize_grads(False)
        return total, nll

    @staticmethod
    def backward(ctx: Any, factor: Tensor, _: None) -> tuple[Tensor | None, ...]:
        scaled = (None if part is None else part * factor for part in ctx.saved_tensors)
        return *scaled, None, None, None, None, None


@dataclass(frozen=True)
class _Gradients:
    """With respect to what the logits are made of."""

    hidden: Tensor
    weight: Tensor | None  # None: it does not learn, and a product is saved
    bias: Tensor | None

    @staticmethod
    def of(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> _Gradients:
        zeros = [
            torch.zeros_like(part) if part is not None and part.requires_grad else None
            for part in (weight, bias)
        ]
        return _Gradients(torch.empty_like(hidden), *zeros)

    def add(self, place: slice, slope: Tensor, rows: Tensor, factors: Tensor) -> None:
        """Take in the gradient of some rows' logits."""
        if self.bias is not None:
            self.bias.add_(slope.sum(0))
        slope = slope.to(factors.dtype)
        self.hidden[place] = slope @ factors
        if self.weight is None:
            return
        if self.weight.dtype == factors.dtype:
            self.weight.addmm_(slope.t(), rows[place])
        else:
            self.weight.add_(slope.t() @ rows[place])


def _full(dtype: torch.dtype) -> torch.dtype:
    """No less than float32."""
    return torch.promote_types(dtype, torch.float32)


def _log_probs(rows: Tensor, factors: Tensor, bias: Tensor | None) -> Tensor:
    logits = (rows @ factors.t()).to(_full(rows.dtype))
    if bias is not None:
        logits += bias
    return torch.log_softmax(logits, -1, out=logits)


def _sums(
    logs: list[Tensor], goals: list[Tensor], smoothing: float, r_drop: float | None
) -> Tensor:
    """What is minimised, and the negative log-likelihood."""
    total, nll = logs[0].new_zeros(()), logs[0].new_zeros(())
    for log, goal in zip(logs, goals, strict=True):
        real = goal != SPECIAL.pad
        likelihood = (real * log.gather(1, goal[:, None]).squeeze(1)).sum()
        nll -= likelihood / len(logs)
        total -= (1.0 - smoothing) * likelihood / len(logs)
        if smoothing:
            total -= smoothing * (real * log.mean(-1)).sum() / len(logs)
    if r_drop:
        total += r_drop / 4 * ((goals[0] != SPECIAL.pad) * divergence(*logs)).sum()
    return torch.stack([total, nll])


def divergence(log_p: Tensor, log_q: Tensor) -> Tensor:
    """`KL(p || q) + KL(q || p)` of each row: `sum (p - q) (log p - log q)`. (N, V) -> (N,)"""
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(-1)


def _slopes(
    logs: list[Tensor], goals: list[Tensor], smoothing: float, r_drop: float | None
) -> list[Tensor]:
    """The gradients with respect to the logits; the logs are used up."""
    apart = _divergence_slopes(*logs) if r_drop else None
    slopes = []
    for number, (log, goal) in enumerate(zip(logs, goals, strict=True)):
        slope = log.exp_()
        if smoothing:
            slope -= smoothing / log.shape[1]
        slope.scatter_add_(1, goal[:, None], slope.new_full((len(goal), 1), smoothing - 1.0))
        if apart is not None and r_drop:
            slope = slope.div_(2).add_(apart[number], alpha=r_drop / 4)
        filler = goal == SPECIAL.pad
        if filler.any():
            slope[filler] = 0.0
        slopes.append(slope)
    return slopes


def _divergence_slopes(log_p: Tensor, log_q: Tensor) -> list[Tensor]:
    """Of `KL(p || q) + KL(q || p)`, with respect to the logits of p and of q."""
    p, q, ratio = log_p.exp(), log_q.exp(), log_p - log_q
    shift = p - q
    gain_p, gain_q = p * ratio, q * ratio
    kl_p, kl_q = gain_p.sum(-1, keepdim=True), -gain_q.sum(-1, keepdim=True)
    return [gain_p + shift - p * kl_p, -gain_q - shift - q * kl_q]
