"""Rows of tokens in drawn orders, as our XLNet takes them and as HuggingFace's does."""

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
    """Rows of equal length; of those with ranks, the places with one are asked for."""
    lengths = Lengths.of([tokens.shape[1]] * ROWS)
    wanted = tokens if ranks is None else tokens.masked_fill(ranks == 0, SPECIAL.pad)
    return PermutedBatch(
        Ragged(tokens.flatten(), lengths),
        Ragged(wanted.flatten(), lengths),
        filler=int((wanted == SPECIAL.pad).sum()),
        ranks=None if ranks is None else ranks.flatten(),
        segments=None if types is None else types.flatten(),
    )


def orders(*, seed: int, asked: int = 4) -> Tensor:
    """Of each row some places, numbered from 1 in a random order. (B, T)"""
    torch.manual_seed(seed)
    ranks = torch.zeros(ROWS, LENGTH, dtype=torch.long)
    for row in ranks:
        row[torch.randperm(LENGTH)[:asked]] = torch.arange(1, asked + 1)
    return ranks


def as_theirs(ranks: Tensor) -> dict[str, Tensor]:
    """`perm_mask` and `target_mapping`, in the order of the places."""
    hidden = (ranks[:, None, :] > 0) & (ranks[:, :, None] <= ranks[:, None, :])
    places = torch.stack([row.nonzero().squeeze(1) for row in ranks])
    mapping = torch.nn.functional.one_hot(places, LENGTH).float()
    return {"perm_mask": hidden.float(), "target_mapping": mapping}


def logits(found: Predictions) -> Tensor:
    """For each row and place. (B, T, V)"""
    return found.project(found.hidden).unflatten(0, (ROWS, -1))
