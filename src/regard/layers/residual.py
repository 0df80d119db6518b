"""Residual connection, dropout and norm around a sub-layer.

post-norm:   Norm(x + Dropout(Sublayer(x)))
pre-norm:    x + Dropout(Sublayer(Norm(x)))
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Literal

import torch
from torch import Tensor, nn

from regard.devices import has_triton
from regard.layers.dropout import Dropout

NormOrder = Literal["post", "pre"]


class Residual(nn.Module):
    """`x = residual.around(x, sublayer)`, or separately `before` and `after` the sub-layer."""

    def __init__(self, norm: nn.Module, dropout: float, order: NormOrder) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)
        self.norm_first = order == "pre"

    def around(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply a sub-layer with norm, dropout and residual connection. (..., D) -> (..., D)"""
        return self.after(x, sublayer(self.before(x)))

    def before(self, x: Tensor) -> Tensor:
        """The input of the sub-layer: x, normalized with pre-norm."""
        if not self.norm_first:
            return x
        kernels = kernels_for(x, self.norm)
        return kernels.add_norm(x, None, self.norm) if kernels else self.norm(x)

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        """Add the output `y` of the sub-layer to its residual input x, with dropout and norm."""
        kernels = kernels_for(x, self.norm)
        if kernels is None:
            x = x + self.dropout(y)
            return x if self.norm_first else self.norm(x)
        p = self.dropout.p if self.training else 0.0
        if self.norm_first:
            return kernels.add(x, y, p)
        return kernels.add_norm(x, y, self.norm, p)


def kernels_for(x: Tensor, norm: nn.Module) -> ModuleType | None:
    """The fused Triton kernels, in half precision on a GPU; None elsewhere."""
    if not x.is_cuda or not has_triton() or torch.compiler.is_compiling():
        return None  # the compiler fuses these operations
    from regard.layers import residual_kernel

    return residual_kernel if residual_kernel.is_supported(x, norm) else None
