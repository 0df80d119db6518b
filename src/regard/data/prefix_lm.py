"""Batches for prefix language models (UniLM): each pair is one row `source EOS BOS target`.

Objective and attention mask vary between batches: prediction of the target given the source (the
source is the prefix), of the next token (no prefix), or of masked tokens (the row is the prefix).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor

from regard.bounds import WEIGHT, Ge
from regard.config import Doc, Settings
from regard.data.batch import Batch, PrefixBatch
from regard.data.masking import Masker
from regard.data.ragged import Ragged
from regard.text.special import SPECIAL

Objective = Literal["prefix", "left_to_right", "bidirectional"]


@dataclass(frozen=True)
class ObjectiveMixConfig(Settings):
    """The mixture of training objectives."""

    prefix: Annotated[
        float, Doc("unilm: weight of translation (source as prefix)"), Ge(0), WEIGHT
    ] = 1.0
    left_to_right: Annotated[float, Doc("weight of causal language modeling"), Ge(0), WEIGHT] = 0.0
    bidirectional: Annotated[float, Doc("weight of masked language modeling"), Ge(0), WEIGHT] = 0.0

    def problems(self) -> Iterator[str]:
        """At least one objective is needed."""
        if not self.prefix + self.left_to_right + self.bidirectional:
            yield "prefix, left_to_right and bidirectional are all 0; set one of them above 0"

    def sample(self, key: str) -> Objective:
        """A random objective for a batch, determined by a key."""
        objectives: list[Objective] = ["prefix", "left_to_right", "bidirectional"]
        weights = [self.prefix, self.left_to_right, self.bidirectional]
        return random.Random(key).choices(objectives, weights)[0]


def to_prefix_batch(batch: Batch, bos: int) -> PrefixBatch:
    """Rows whose target is predicted, with the source as prefix."""
    inputs = _inputs(batch, bos)
    labels = torch.full_like(inputs.tokens, SPECIAL.pad)
    labels[_target_indices(batch, inputs)] = batch.target.tokens
    filler = inputs.lengths.total - batch.target_tokens
    prefixes = batch.source.lengths.lengths
    return PrefixBatch(inputs, Ragged(labels, inputs.lengths), filler, prefixes=prefixes)


def to_causal_batch(batch: Batch, bos: int) -> PrefixBatch:
    """Rows in which the next token is predicted at each position."""
    prefix_batch = to_prefix_batch(batch, bos)
    labels = prefix_batch.target.tokens.clone()
    following = prefix_batch.source.tokens.roll(-1)
    row, sources = prefix_batch.source.lengths, batch.source.lengths.lengths
    in_source = row.positions < sources[row.sentence] - 1
    labels[in_source] = following[in_source]
    filler = int((labels == SPECIAL.pad).sum())
    prefixes = torch.zeros_like(sources)
    return PrefixBatch(prefix_batch.source, Ragged(labels, row), filler, prefixes=prefixes)


def to_masked_batch(
    batch: Batch, bos: int, masker: Masker, generators: Sequence[np.random.Generator]
) -> PrefixBatch:
    """Rows in which masked tokens are predicted."""
    inputs = _inputs(batch, bos)
    lengths = inputs.lengths
    rows = np.split(inputs.tokens.numpy(), lengths.offsets[1:-1].numpy())
    masked = zip(*map(masker.mask_tokens, rows, generators), strict=True)
    tokens, labels = (torch.from_numpy(np.concatenate(parts).astype(np.int64)) for parts in masked)
    filler = int((labels == SPECIAL.pad).sum())
    sides = Ragged(tokens, lengths), Ragged(labels, lengths)
    return PrefixBatch(*sides, filler, prefixes=lengths.lengths)


def _inputs(batch: Batch, bos: int) -> Ragged:
    """The input row of each pair."""
    source, shifted = batch.source, batch.target.shifted_right(bos)
    lengths = source.lengths.concatenated(shifted.lengths)
    tokens = source.tokens.new_empty(lengths.total)
    row = Ragged(tokens, lengths)
    begins = lengths.offsets[source.lengths.sentence].long()
    tokens[begins + source.lengths.positions] = source.tokens
    tokens[_target_indices(batch, row)] = shifted.tokens
    return row


def _target_indices(batch: Batch, row: Ragged) -> Tensor:
    """The indices of target tokens in the row. (target tokens,)"""
    target = batch.target.lengths
    begins = row.lengths.offsets[:-1].long() + batch.source.lengths.lengths
    return begins[target.sentence] + target.positions
