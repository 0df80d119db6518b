"""Batches of permuted tokens, for our XLNet and for HuggingFace's."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.data.batch import PermutedBatch
from regard.data.ragged import Lengths, Ragged
from regard.models.protocol import Predictions
from regard.text.special import SPECIAL

ROWS, LENGTH = 3, 11


def batch_of(
    tokens: Tensor, *, ranks: Tensor | None = None, types: Tensor | None = None
) -> PermutedBatch:
    """Rows of equal length; positions with a rank are predicted."""
    lengths = Lengths.of([tokens.shape[1]] * ROWS)
    expected = tokens if ranks is None else tokens.masked_fill(ranks == 0, SPECIAL.pad)
    return PermutedBatch(
        Ragged(tokens.flatten(), lengths),
        Ragged(expected.flatten(), lengths),
        filler=int((expected == SPECIAL.pad).sum()),
        ranks=None if ranks is None else ranks.flatten(),
        segments=None if types is None else types.flatten(),
    )


def orders(*, seed: int, num_targets: int = 4) -> Tensor:
    """Ranks of some random positions of each row, from 1; 0 elsewhere. (B, T)"""
    torch.manual_seed(seed)
    ranks = torch.zeros(ROWS, LENGTH, dtype=torch.long)
    for row in ranks:
        row[torch.randperm(LENGTH)[:num_targets]] = torch.arange(1, num_targets + 1)
    return ranks


def as_theirs(ranks: Tensor) -> dict[str, Tensor]:
    """HuggingFace's `perm_mask` and `target_mapping`, ordered by position."""
    hidden = (ranks[:, None, :] > 0) & (ranks[:, :, None] <= ranks[:, None, :])
    positions = torch.stack([row.nonzero().squeeze(1) for row in ranks])
    mapping = torch.nn.functional.one_hot(positions, LENGTH).float()
    return {"perm_mask": hidden.float(), "target_mapping": mapping}


def logits(predictions: Predictions) -> Tensor:
    """The logits of each row and position. (B, T, V)"""
    return predictions.project(predictions.hidden).unflatten(0, (ROWS, -1))
