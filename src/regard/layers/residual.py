"""What surrounds every sub-layer: residual connection, dropout and norm.

post-norm, the paper's:   Norm(x + Dropout(Sublayer(x)))
pre-norm:                 x + Dropout(Sublayer(Norm(x)))
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
    """`x = residual.around(x, sublayer)`; or in two moments, `before` and `after` the sub-layer."""

    def __init__(self, norm: nn.Module, dropout: float, order: NormOrder) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)
        self.norm_first = order == "pre"

    def around(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """What the next sub-layer gets."""
        return self.after(x, sublayer(self.before(x)))

    def before(self, x: Tensor) -> Tensor:
        """What the sub-layer gets."""
        if not self.norm_first:
            return x
        kernels = kernels_for(x, self.norm)
        return kernels.normed(x, None, self.norm) if kernels else self.norm(x)

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        """What the next sub-layer gets, given this one's answer `y`."""
        kernels = kernels_for(x, self.norm)
        if kernels is None:
            x = x + self.dropout(y)
            return x if self.norm_first else self.norm(x)
        share = self.dropout.share if self.training else 0.0
        if self.norm_first:
            return kernels.added(x, y, share)
        return kernels.normed(x, y, self.norm, share)


def kernels_for(x: Tensor, norm: nn.Module) -> ModuleType | None:
    """What does the same in one pass over memory: on a GPU, in half precision."""
    if not x.is_cuda or not has_triton() or torch.compiler.is_compiling():
        return None  # the compiler fuses by itself
    from regard.layers import residual_kernel

    return residual_kernel if residual_kernel.fits(x, norm) else None
