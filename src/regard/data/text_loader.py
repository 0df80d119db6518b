"""Batches of running text: what a model reads, and what it should write at each place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.loader import DataConfig, nothing
from regard.data.pieces import Pieces, cut
from regard.data.ragged import Batch, Lengths, Ragged
from regard.data.sampling import Indices, Position, Share, Turn, endless, epoch_batches, fill
from regard.data.store import Store, Text
from regard.errors import ConfigError
from regard.text.special import SPECIAL

Objective = Literal["causal"]


@dataclass(frozen=True)
class TextTask:
    """What a model makes of running text."""

    objective: Objective
    context: int  # tokens that are read at once
    start: int = SPECIAL.start  # the mark before a document


class TextLoader:
    """The training part of a text store as an endless row of batches, or of a share of each."""

    def __init__(
        self,
        store: Store,
        config: DataConfig,
        task: TextTask,
        *,
        seed: int,
        share: Share | None = None,
    ) -> None:
        _refuse_what_is_for_pairs(config)
        self._text = store.text("train")
        self._task = task
        self._budget = config.batch_tokens
        self._seed = seed
        self._share = share or Share()

    def batches(
        self, position: Position, turn: Turn | None = None
    ) -> Iterator[tuple[Position, Batch]]:
        """Batches from a position on, or those of a turn, each with the position after it."""
        turn = turn or Turn()
        for count, (after, (pieces, indices)) in enumerate(endless(position, self._planned)):
            if turn.is_at(count):
                own = indices[self._share.places(pieces.lengths()[indices])]
                yield after, text_batch(self._text, pieces, own, self._task)

    def _planned(self, epoch: int) -> list[tuple[Pieces, Indices]]:
        """The batches of an epoch, as numbers of its pieces."""
        pieces = cut(
            self._text.documents, self._task.context, np.random.default_rng([self._seed, epoch, 1])
        )
        lengths = pieces.lengths()
        planned = epoch_batches(lengths, lengths, budget=self._budget, seed=self._seed, epoch=epoch)
        return [(pieces, indices) for indices in planned]


def _refuse_what_is_for_pairs(config: DataConfig) -> None:
    if config.weights or config.sampling_candidates > 1:
        raise ConfigError(
            "data.weights and data.sampling_candidates are for pairs of sentences, and this is "
            "running text. Leave them out."
        )


def text_in_order(text: Text, config: DataConfig, task: TextTask) -> Iterator[Batch]:
    """All of a text once, from short pieces to long ones: for validation."""
    pieces = cut(text.documents, task.context)
    lengths = pieces.lengths()
    order = np.argsort(lengths, kind="stable")
    for begin, end in fill(lengths[order], lengths[order], config.batch_tokens):
        yield text_batch(text, pieces, order[begin:end], task)


def text_batch(text: Text, pieces: Pieces, indices: Indices, task: TextTask) -> Batch:
    """Some pieces as one batch."""
    if not len(indices):
        return nothing()
    return causal_batch(text.documents.flat(), pieces, indices, task.start)


def causal_batch(ids: NDArray[np.integer], pieces: Pieces, indices: Indices, start: int) -> Batch:
    """What is read at each place is the token before it, also where that is of another piece."""
    begins, ends = pieces.begins[indices], pieces.ends[indices]
    sizes = ends - begins
    targets = np.concatenate([ids[b:e] for b, e in zip(begins, ends, strict=True)])
    inputs = np.roll(targets, 1).astype(np.int64)
    inputs[np.cumsum(sizes) - sizes] = np.where(
        pieces.firsts[indices], start, ids[np.maximum(begins - 1, 0)]
    )
    lengths = Lengths.of(sizes.tolist())
    rows = torch.from_numpy(inputs), torch.from_numpy(targets.astype(np.int64))
    return Batch(Ragged(rows[0], lengths), Ragged(rows[1], lengths))
