"""Alignments from attention: where one head looks while a model goes through a given target.

A head can be looked at as a word is written, or a step later, as it is read; the later is often
the better (Chen et al., 2020, arXiv:2004.14837). End marks are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from regard.attention.multihead import AttentionRecord
from regard.data.aligner import Ids
from regard.data.batch import Batch
from regard.data.pairs import with_ends
from regard.data.rows import Rows
from regard.decoding.engine import by_length
from regard.errors import ConfigError
from regard.models.base import Model

_PORTION = 2000  # pairs that are sorted by length at a time


@dataclass(frozen=True)
class View:
    """One of the places where attention can be looked at."""

    reads: bool  # as a word is read, not as it is written
    layer: int  # from 0
    head: int | None  # from 0; None: the mean of all

    def __str__(self) -> str:
        head = "all heads" if self.head is None else f"head {self.head + 1}"
        return f"layer {self.layer + 1}, {head}, as a word is {'read' if self.reads else 'written'}"


@dataclass(frozen=True)
class Seen:
    """Where all views of one pair look most: from each target word, and from each source word."""

    forward: Ids  # (2, layers, H + 1, T); 0: as a word is written, 1: as it is read
    backward: Ids  # (2, layers, H + 1, S)

    @property
    def views(self) -> list[View]:
        """All there are: each head and the mean of a layer, layer by layer."""
        _, layers, heads, _ = self.forward.shape
        return [
            View(reads, layer, head)
            for reads in (False, True)
            for layer in range(layers)
            for head in [*range(heads - 1), None]
        ]

    def through(self, view: View) -> tuple[Ids, Ids]:
        """One view: a source word for each target word, a target word for each source word."""
        place = int(view.reads), view.layer, -1 if view.head is None else view.head
        return self.forward[place], self.backward[place]


@dataclass(frozen=True)
class Gaze:
    """One view of a model, as an aligner."""

    model: Model
    view: View

    def heads(self, source: Rows, target: Rows) -> Iterator[tuple[Ids, Ids]]:
        """For each pair, the places that target words come from, and those of source words."""
        for seen in all_views(self.model, source, target):
            yield seen.through(self.view)


def all_views(model: Model, source: Rows, target: Rows) -> Iterator[Seen]:
    """Where a model looks in each pair, in their order."""
    for begin in range(0, len(source), _PORTION):
        own = range(begin, min(begin + _PORTION, len(source)))
        pairs = [(source[index], target[index]) for index in own]
        yield from by_length(
            pairs, lambda pair: len(pair[0]) + len(pair[1]), None, lambda some: _seen(model, some)
        )


@torch.inference_mode()
def _seen(model: Model, pairs: list[tuple[Ids, Ids]]) -> list[Seen]:
    record = AttentionRecord()
    batch = Batch(with_ends([pair[0] for pair in pairs]), with_ends([pair[1] for pair in pairs]))
    model(batch.to(model.device), record)
    if not record.cross:
        raise ConfigError("This model does not look at its source. Choose one with attention.")
    layers = torch.stack(record.cross, 1).float()  # (B, layers, H, T, S)
    views = torch.cat([layers, layers.mean(2, keepdim=True)], 2).cpu().numpy()
    return [
        _most(views[number], len(source), len(target))
        for number, (source, target) in enumerate(pairs)
    ]


def _most(views: NDArray[np.float32], sources: int, targets: int) -> Seen:
    weights = np.stack([views[:, :, :targets], views[:, :, 1 : targets + 1]])[..., :sources]
    if not sources or not targets:
        shape = weights.shape[:3]
        return Seen(np.full((*shape, targets), -1), np.full((*shape, sources), -1))
    return Seen(weights.argmax(-1), weights.argmax(-2))
