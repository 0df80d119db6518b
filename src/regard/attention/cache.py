"""Keys and values of what is past, so that one decoding step costs one new column."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class KeyValues:
    """What queries look at: keys and values of B rows, each (B, H, S, d)."""

    keys: Tensor
    values: Tensor

    @property
    def length(self) -> int:
        """How many columns there are."""
        return self.keys.shape[2]

    def extended(self, key: Tensor, value: Tensor) -> KeyValues:
        """With one column more; key and value (B, H, 1, d)."""
        return KeyValues(torch.cat([self.keys, key], 2), torch.cat([self.values, value], 2))

    def select(self, rows: Tensor) -> KeyValues:
        """These rows, in this order, as often as they are named."""
        return KeyValues(self.keys.index_select(0, rows), self.values.index_select(0, rows))
