"""One state for each word, of the states of its subwords."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from regard.data.ragged import Lengths

Pooling = Literal["first", "last", "mean"]


def pool_words(states: Tensor, pieces: Lengths, pooling: Pooling) -> Tensor:
    """A word's first or last subword, or their mean; zeros if it has none. (N, D) -> (W, D)

    pieces: how many subwords each of the W words has; together they are the N states.
    """
    if pooling == "mean":
        precise = torch.promote_types(states.dtype, torch.float32)
        # Sums of half precision would lose what a mean should keep.
        total = torch.segment_reduce(
            states.to(precise), "sum", lengths=pieces.lengths, axis=0, initial=0, unsafe=True
        )
        return (total / pieces.lengths[:, None].clamp(min=1)).to(states.dtype)
    begin, end = pieces.offsets[:-1], pieces.offsets[1:]
    if not pieces.total:
        return states.new_zeros(len(pieces), states.shape[1])
    place = begin.clamp(max=pieces.total - 1) if pooling == "first" else (end - 1).clamp(min=0)
    return states[place].masked_fill((begin == end)[:, None], 0.0)
