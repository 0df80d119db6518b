"""Pairs of sentences, each pair as one row: `source EOS BOS target`, as UniLM reads them.

What is predicted in a row, and which tokens may attend to which, changes from batch to batch: the
target from the source (all may attend to the source), the next token (no prefix), or masked tokens
(the whole row is the prefix).
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
    """How often each objective is trained."""

    prefix: Annotated[
        float, Doc("unilm: batches that translate, beside the others"), Ge(0), WEIGHT
    ] = 1.0
    left_to_right: Annotated[
        float, Doc("batches that are read from left to right"), Ge(0), WEIGHT
    ] = 0.0
    bidirectional: Annotated[float, Doc("batches of which words are hidden"), Ge(0), WEIGHT] = 0.0

    def problems(self) -> Iterator[str]:
        """Some mask has to be used."""
        if not self.prefix + self.left_to_right + self.bidirectional:
            yield "prefix, left_to_right and bidirectional are all 0; set one of them above 0"

    def drawn(self, key: str) -> Objective:
        """The objective of a batch; the same for the same key."""
        objectives: list[Objective] = ["prefix", "left_to_right", "bidirectional"]
        weights = [self.prefix, self.left_to_right, self.bidirectional]
        return random.Random(key).choices(objectives, weights)[0]


def as_rows(batch: Batch, start: int) -> PrefixBatch:
    """Each pair as a row that is asked for its target, the source being seen in full."""
    read = _read(batch, start)
    wanted = torch.full_like(read.tokens, SPECIAL.pad)
    wanted[_places(batch, read)] = batch.target.tokens
    filler = read.lengths.total - batch.target_tokens
    prefixes = batch.source.lengths.lengths
    return PrefixBatch(read, Ragged(wanted, read.lengths), filler, prefixes=prefixes)


def from_left_to_right(batch: Batch, start: int) -> PrefixBatch:
    """Each pair as a row that is asked for the next word all along."""
    asked = as_rows(batch, start)
    wanted = asked.target.tokens.clone()
    following = asked.source.tokens.roll(-1)
    row, sources = asked.source.lengths, batch.source.lengths.lengths
    in_source = row.positions < sources[row.sentence] - 1
    wanted[in_source] = following[in_source]
    filler = int((wanted == SPECIAL.pad).sum())
    none = torch.zeros_like(sources)
    return PrefixBatch(asked.source, Ragged(wanted, row), filler, prefixes=none)


def with_hidden_words(
    batch: Batch, start: int, masker: Masker, draws: Sequence[np.random.Generator]
) -> PrefixBatch:
    """Each pair as a row in which hidden words have to be found, all others being seen."""
    read = _read(batch, start)
    rows = np.split(read.tokens.numpy(), read.lengths.offsets[1:-1].numpy())
    found = zip(*map(masker.hide, rows, draws), strict=True)
    tokens, wanted = (torch.from_numpy(np.concatenate(parts).astype(np.int64)) for parts in found)
    filler = int((wanted == SPECIAL.pad).sum())
    sides = Ragged(tokens, read.lengths), Ragged(wanted, read.lengths)
    return PrefixBatch(*sides, filler, prefixes=read.lengths.lengths)


def _read(batch: Batch, start: int) -> Ragged:
    """What is read of each pair."""
    source, inputs = batch.source, batch.target.shifted_right(start)
    lengths = source.lengths.plus(inputs.lengths)
    tokens = source.tokens.new_empty(lengths.total)
    row = Ragged(tokens, lengths)
    begins = lengths.offsets[source.lengths.sentence].long()
    tokens[begins + source.lengths.positions] = source.tokens
    tokens[_places(batch, row)] = inputs.tokens
    return row


def _places(batch: Batch, row: Ragged) -> Tensor:
    """Where the target's tokens stand in the row. (target tokens,)"""
    target = batch.target.lengths
    begins = row.lengths.offsets[:-1].long() + batch.source.lengths.lengths
    return begins[target.sentence] + target.positions
