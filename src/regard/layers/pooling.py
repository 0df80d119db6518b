"""Pooling of subword states to word states."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from regard.data.ragged import Lengths

Pooling = Literal["first", "last", "mean"]


def pool_subwords(states: Tensor, subwords: Lengths, pooling: Pooling) -> Tensor:
    """The first, last or mean subword state of each word; zeros for none. (N, D) -> (W, D)

    subwords: the number of subwords of each of the W words, N in total
    """
    if pooling == "mean":
        precise = torch.promote_types(states.dtype, torch.float32)
        # A sum in half precision would lose too many bits.
        total = torch.segment_reduce(
            states.to(precise), "sum", lengths=subwords.lengths, axis=0, initial=0, unsafe=True
        )
        return (total / subwords.lengths[:, None].clamp(min=1)).to(states.dtype)
    starts, ends = subwords.offsets[:-1], subwords.offsets[1:]
    if not subwords.total:
        return states.new_zeros(len(subwords), states.shape[1])
    indices = (
        starts.clamp(max=subwords.total - 1) if pooling == "first" else (ends - 1).clamp(min=0)
    )
    return states[indices].masked_fill((starts == ends)[:, None], 0.0)
