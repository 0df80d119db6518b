"""Batches made ahead of their use, by processes beside the one that trains."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from regard.data.loader import Batches
from regard.data.ragged import Batch, Distributions, Doubles, Lengths, Ragged
from regard.data.sampling import Position, Turn

Placed = tuple[Position, Batch]
Row = NDArray[np.int64]
Extra = NDArray[Any]
Extras = list[Extra] | None
Rows = list[tuple[Row, Row]]
Sent = tuple[Position, Rows, int, Extras, Extras, Extras, Extras, bool, Extras, Extras, Rows]
_BATCHES = 8  # that a process is ahead


def ahead(loader: Batches, position: Position, workers: int) -> Iterator[Placed]:
    """The batches of `loader.batches`, in the same order; made here if there are no workers."""
    if workers == 0:
        return loader.batches(position)
    made: DataLoader[Sent] = DataLoader(
        _Turns(loader, position),
        batch_size=None,  # they are batches already
        collate_fn=_unchanged,
        num_workers=workers,
        prefetch_factor=_BATCHES,
        worker_init_fn=_ignore_signals,
    )
    return map(_received, made)


class _Turns(IterableDataset[Sent]):
    """In each worker, the batches of its turn; whoever takes one of each in turn has them all."""

    def __init__(self, loader: Batches, position: Position) -> None:
        self._loader = loader
        self._position = position

    def __iter__(self) -> Iterator[Sent]:
        worker = get_worker_info()
        assert worker is not None
        turn = Turn(worker.id, worker.num_workers)
        return map(_sent, self._loader.batches(self._position, turn))


def _sent(placed: Placed) -> Sent:
    """As plain arrays: PyTorch would send each tensor through a file of its own."""
    position, batch = placed
    rows = [*map(_arrays, batch.sides)]
    counts = None if batch.fertilities is None else [batch.fertilities.numpy()]
    likely = None
    if batch.likely is not None:
        likely = [batch.likely.words.numpy(), batch.likely.probabilities.numpy()]
    doubles = None
    if batch.doubles is not None:
        doubles = [batch.doubles.segments.numpy(), batch.doubles.strange.numpy()]
    prefixes = None if batch.prefixes is None else [batch.prefixes.numpy()]
    ranks = None if batch.ranks is None else [batch.ranks.numpy()]
    words = None if batch.words is None else [batch.words.lengths.numpy()]
    spelling = [] if batch.spelling is None else [_arrays(batch.spelling)]
    extras = counts, likely, doubles, prefixes, batch.continues, ranks, words, spelling
    return position, rows, batch.filler, *extras


def _arrays(row: Ragged) -> tuple[Row, Row]:
    return row.tokens.numpy(), row.lengths.lengths.numpy()


def _ragged(arrays: tuple[Row, Row]) -> Ragged:
    tokens, lengths = arrays
    return Ragged(torch.from_numpy(tokens), Lengths.of(lengths.tolist()))


def _received(sent: Sent) -> Placed:
    position, rows, filler, counts, likely, two, seen, continues, order, sizes, spelled = sent
    source, target = map(_ragged, rows)
    fertilities = None if counts is None else torch.from_numpy(counts[0])
    guesses = None if likely is None else Distributions(*map(torch.from_numpy, likely))
    doubles = None if two is None else Doubles(*map(torch.from_numpy, two))
    prefixes = None if seen is None else torch.from_numpy(seen[0])
    ranks = None if order is None else torch.from_numpy(order[0])
    words = None if sizes is None else Lengths.of(sizes[0].tolist())
    spelling = _ragged(spelled[0]) if spelled else None
    extras = fertilities, guesses, doubles, prefixes, continues, ranks, words, spelling
    return position, Batch(source, target, filler, *extras)


def _unchanged(sent: Any) -> Any:
    return sent


def _ignore_signals(worker: int) -> None:
    """Ctrl-C reaches every process, but it is the training one that decides what follows."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
