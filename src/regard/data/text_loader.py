"""Batches of running or labelled text from a prepared store."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from regard.data.label_rows import LabelRows
from regard.data.label_store import labelled_part
from regard.data.loader import DataConfig, recutters
from regard.data.masking import Masker
from regard.data.pieces import Pieces
from regard.data.ragged import Batch
from regard.data.sampling import Indices, Position, Share, Turn, endless, epoch_batches, fill
from regard.data.spelling import Speller
from regard.data.store import Store
from regard.data.text_rows import CausalRows, MaskedRows, TextRows, TextTask
from regard.errors import ConfigError

Planned = tuple[int, Pieces, Indices]


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
        refuse_what_is_for_pairs(config, task)
        self._rows = rows_of(store, "train", config, task, seed)
        self._budget = config.batch_tokens
        self._seed = seed
        self._share = share or Share()

    def batches(
        self, position: Position, turn: Turn | None = None
    ) -> Iterator[tuple[Position, Batch]]:
        """Batches from a position on, or those of a turn, each with the position after it."""
        turn = turn or Turn()
        for after, planned in turn.among(endless(position, self._planned)):
            yield after, self._batch(*planned)

    def _batch(self, epoch: int, pieces: Pieces, indices: Indices) -> Batch:
        own = indices[self._share.places(pieces.lengths()[indices])]
        return self._rows.batch(pieces, own, epoch) if len(own) else self._rows.nothing()

    def _planned(self, epoch: int) -> list[Planned]:
        """The batches of an epoch, as numbers of its pieces."""
        pieces = self._rows.pieces(epoch)
        lengths = pieces.lengths() + self._rows.frame
        planned = epoch_batches(lengths, lengths, budget=self._budget, seed=self._seed, epoch=epoch)
        return [(epoch, pieces, indices) for indices in planned]


def rows_of(store: Store, part: str, config: DataConfig, task: TextTask, seed: int) -> TextRows:
    """A part of a store as rows for a task."""
    if task.content != "text":
        return label_rows(store, part, config, task, seed)
    text = store.text(part)
    if task.objective == "causal":
        return CausalRows(text, task, seed)
    masker = Masker(store.tokenizers.source, config.masking, task.mask)
    return MaskedRows(text, task, masker, seed, dynamic=config.masking.dynamic)


def label_rows(store: Store, part: str, config: DataConfig, task: TextTask, seed: int) -> LabelRows:
    """Labelled text as rows; what a model could not read is refused."""
    longest = store.description["parts"][part]["longest"] + 2
    if task.content == "tagged" and longest > task.context:
        raise ConfigError(
            f"A sentence of {store.folder} has {longest} subwords with its marks, and the model "
            f"reads {task.context} at once. Set model.max_positions={longest}, or prepare with "
            f"--max-tokens {task.context - 2}."
        )
    recutter = next(iter(recutters(store, config)), None)
    speller = Speller(store.tokenizers.source)
    return LabelRows(labelled_part(store, part), task, seed, speller, recutter)


def text_in_order(store: Store, config: DataConfig, task: TextTask) -> Iterator[Batch]:
    """All of the validation text once, from short pieces to long ones, the same each time."""
    rows = rows_of(store, "valid", config, task, seed=0)
    pieces = rows.pieces(None)
    lengths = pieces.lengths() + rows.frame
    order = np.argsort(lengths, kind="stable")
    for begin, end in fill(lengths[order], lengths[order], config.batch_tokens):
        yield rows.batch(pieces, order[begin:end], None)


def refuse_what_is_for_pairs(config: DataConfig, task: TextTask) -> None:
    """Settings that running text has no use for, and labelled text hardly any."""
    if config.weights or (config.sampling_candidates > 1 and task.content == "text"):
        raise ConfigError(
            "data.weights and data.sampling_candidates are for pairs of sentences (the latter for "
            "labelled text, too), and this is other text. Leave them out."
        )
