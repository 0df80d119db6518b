"""Where a model looked while it translated: one forward pass over the finished pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.attention.multihead import AttentionRecord
from regard.data.loader import with_ends
from regard.data.ragged import Batch
from regard.models.base import Model
from regard.text.tokenizer import Tokenizers

Weights = NDArray[np.float32]


@dataclass(frozen=True)
class Attention:
    """Weights of every layer and head between the subwords of a pair; no layers where none look.

    Row t of `decoder` and `cross` is the step that wrote `target[t]`, so the decoder's columns are
    what it had read by then: the start mark and the target without its end.
    """

    source: list[str]
    target: list[str]
    encoder: Weights  # (layers, H, S, S)
    decoder: Weights  # (layers, H, T, T)
    cross: Weights  # (layers, H, T, S)


@torch.inference_mode()
def look(
    model: Model, tokenizers: Tokenizers, source: Sequence[int], target: Sequence[int]
) -> Attention:
    """The attention of one pair of sentences."""
    record = AttentionRecord()
    batch = Batch(with_ends([source]), with_ends([target]))
    model(batch.to(model.device), record)
    rows, columns = batch.target.lengths.total, batch.source.lengths.total
    return Attention(
        [*tokenizers.source.pieces(source), "</s>"],
        [*tokenizers.target.pieces(target), "</s>"],
        _stacked(record.encoder, columns, columns),
        _stacked(record.decoder, rows, rows),
        _stacked(record.cross, rows, columns),
    )


def _stacked(layers: list[Tensor], rows: int, columns: int) -> Weights:
    if not layers:  # there is no such attention
        return np.zeros((0, 0, rows, columns), dtype=np.float32)
    stacked: Weights = torch.cat(layers).float().cpu().numpy()
    return stacked


def side_by_side(looks: Sequence[Attention]) -> Attention | None:
    """One picture for a text of several pieces, which do not look at each other."""
    if len(looks) <= 1:
        return looks[0] if looks else None
    return Attention(
        [token for one in looks for token in one.source],
        [token for one in looks for token in one.target],
        _diagonal([one.encoder for one in looks]),
        _diagonal([one.decoder for one in looks]),
        _diagonal([one.cross for one in looks]),
    )


def _diagonal(blocks: Sequence[Weights]) -> Weights:
    rows, columns = (sum(block.shape[axis] for block in blocks) for axis in (2, 3))
    whole = np.zeros((*blocks[0].shape[:2], rows, columns), dtype=np.float32)
    row = column = 0
    for block in blocks:
        height, width = block.shape[2:]
        whole[:, :, row : row + height, column : column + width] = block
        row, column = row + height, column + width
    return whole
