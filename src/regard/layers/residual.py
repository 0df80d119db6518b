"""What surrounds every sub-layer: residual connection, dropout and norm.

post-norm, the paper's:   Norm(x + Dropout(Sublayer(x)))
pre-norm:                 x + Dropout(Sublayer(Norm(x)))
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from regard.layers.dropout import Dropout

NormOrder = Literal["post", "pre"]


class Residual(nn.Module):
    """Used in two moments, `y = sublayer(residual.before(x))` and `x = residual.after(x, y)`."""

    def __init__(self, norm: nn.Module, dropout: float, order: NormOrder) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)
        self.norm_first = order == "pre"

    def before(self, x: Tensor) -> Tensor:
        """What the sub-layer gets."""
        return self.norm(x) if self.norm_first else x

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        """What the next sub-layer gets, given this one's answer `y`."""
        x = x + self.dropout(y)
        return x if self.norm_first else self.norm(x)
