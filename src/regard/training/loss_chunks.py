"""The losses of `losses.py` computed from hidden states in chunks of a few hundred rows.

The logits are by far the largest tensor of a batch, and memory bandwidth limits a CPU. A chunk of
logits stays in the cache from the matrix product to its gradient, which is computed at once and
propagated to the hidden states and the weights; no logits are stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.text.special import SPECIAL

_CHUNK_ELEMENTS = 2**22  # 16 MB in float32


def chunked_loss(
    hidden: Tensor,
    targets: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    smoothing: float,
    r_drop: float | None,
) -> tuple[Tensor, Tensor]:
    """The sums of the loss, with the R-Drop term if its weight is set, and of the NLL.

    hidden (N, D), targets (N,), weight (V, D), bias (V,) -> two sums; the first has a gradient
    """
    device_type = hidden.device.type
    autocast = torch.is_autocast_enabled(device_type)
    dtype = torch.get_autocast_dtype(device_type) if autocast else hidden.dtype
    needs_grad = torch.is_grad_enabled() and any(
        part is not None and part.requires_grad for part in (hidden, weight, bias)
    )
    with torch.autocast(device_type, enabled=False):
        total, nll = _ChunkedLoss.apply(  # type: ignore[no-untyped-call]
            hidden, weight, bias, targets, smoothing, r_drop, dtype, needs_grad
        )
    return total, nll


class _ChunkedLoss(torch.autograd.Function):
    """A loss whose gradients are computed in the forward pass."""

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
        needs_grad: bool,
    ) -> tuple[Tensor, Tensor]:
        passes = 1 if r_drop is None else 2
        rows, projection = hidden.to(dtype), weight.to(dtype)
        gradients = _Gradients.zeros_for(hidden, weight, bias) if needs_grad else None
        sums = hidden.new_zeros(2, dtype=_at_least_float32(hidden.dtype))
        size = len(rows) // passes
        step = max(1, _CHUNK_ELEMENTS // len(weight) // passes)
        for first in range(0, size, step):
            chunks = [
                slice(offset + first, offset + min(first + step, size))
                for offset in range(0, len(rows), size)
            ]
            log_probs = [_log_probs(rows[chunk], projection, bias) for chunk in chunks]
            labels = [targets[chunk] for chunk in chunks]
            sums += _sums(log_probs, labels, smoothing, r_drop)
            if gradients:
                for chunk, gradient in zip(
                    chunks, _logit_gradients(log_probs, labels, smoothing, r_drop), strict=True
                ):
                    gradients.add(chunk, gradient, rows, projection)
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
    """Gradients with respect to hidden states, weight and bias."""

    hidden: Tensor
    weight: Tensor | None  # None if frozen, which saves a matrix product
    bias: Tensor | None

    @staticmethod
    def zeros_for(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> _Gradients:
        zeros = [
            torch.zeros_like(part) if part is not None and part.requires_grad else None
            for part in (weight, bias)
        ]
        return _Gradients(torch.empty_like(hidden), *zeros)

    def add(self, chunk: slice, gradient: Tensor, rows: Tensor, projection: Tensor) -> None:
        """Accumulate the gradient of a chunk of logits."""
        if self.bias is not None:
            self.bias.add_(gradient.sum(0))
        gradient = gradient.to(projection.dtype)
        self.hidden[chunk] = gradient @ projection
        if self.weight is None:
            return
        if self.weight.dtype == projection.dtype:
            self.weight.addmm_(gradient.t(), rows[chunk])
        else:
            self.weight.add_(gradient.t() @ rows[chunk])


def _at_least_float32(dtype: torch.dtype) -> torch.dtype:
    """float32, or the type itself if it is wider."""
    return torch.promote_types(dtype, torch.float32)


def _log_probs(rows: Tensor, projection: Tensor, bias: Tensor | None) -> Tensor:
    logits = (rows @ projection.t()).to(_at_least_float32(rows.dtype))
    if bias is not None:
        logits += bias
    return torch.log_softmax(logits, -1, out=logits)


def _sums(
    log_probs: list[Tensor], labels: list[Tensor], smoothing: float, r_drop: float | None
) -> Tensor:
    """The sums of the loss and of the negative log-likelihood of a chunk. (2,)"""
    total, nll = log_probs[0].new_zeros(()), log_probs[0].new_zeros(())
    for rows, label in zip(log_probs, labels, strict=True):
        valid = label != SPECIAL.pad
        likelihood = (valid * rows.gather(1, label[:, None]).squeeze(1)).sum()
        nll -= likelihood / len(log_probs)
        total -= (1.0 - smoothing) * likelihood / len(log_probs)
        if smoothing:
            total -= smoothing * (valid * rows.mean(-1)).sum() / len(log_probs)
    if r_drop:
        total += r_drop / 4 * ((labels[0] != SPECIAL.pad) * divergence(*log_probs)).sum()
    return torch.stack([total, nll])


def divergence(log_p: Tensor, log_q: Tensor) -> Tensor:
    """`KL(p || q) + KL(q || p)` of each row: `sum (p - q) (log p - log q)`. (N, V) -> (N,)"""
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(-1)


def _logit_gradients(
    log_probs: list[Tensor], labels: list[Tensor], smoothing: float, r_drop: float | None
) -> list[Tensor]:
    """The gradients with respect to the logits; overwrites the log-probabilities."""
    divergence_gradients = _divergence_gradients(*log_probs) if r_drop else None
    gradients = []
    for number, (rows, label) in enumerate(zip(log_probs, labels, strict=True)):
        gradient = rows.exp_()
        if smoothing:
            gradient -= smoothing / rows.shape[1]
        one_hot = gradient.new_full((len(label), 1), smoothing - 1.0)
        gradient.scatter_add_(1, label[:, None], one_hot)
        if divergence_gradients is not None and r_drop:
            gradient = gradient.div_(2).add_(divergence_gradients[number], alpha=r_drop / 4)
        padding = label == SPECIAL.pad
        if padding.any():
            gradient[padding] = 0.0
        gradients.append(gradient)
    return gradients


def _divergence_gradients(log_p: Tensor, log_q: Tensor) -> list[Tensor]:
    """Gradients of `KL(p || q) + KL(q || p)` with respect to the logits of p and of q."""
    p, q, log_ratio = log_p.exp(), log_q.exp(), log_p - log_q
    difference = p - q
    terms_p, terms_q = p * log_ratio, q * log_ratio
    kl_p, kl_q = terms_p.sum(-1, keepdim=True), -terms_q.sum(-1, keepdim=True)
    return [terms_p + difference - p * kl_p, -terms_q - difference - q * kl_q]
