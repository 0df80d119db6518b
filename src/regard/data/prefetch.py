"""Prefetch: worker processes make batches ahead of their use."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from regard.data.batch import Batch, packed, unpacked
from regard.data.loader import Loader
from regard.data.sampling import Position, Turn

_BATCHES = 8  # that each worker makes ahead


def prefetched(
    loader: Loader, position: Position, workers: int
) -> Iterator[tuple[Position, Batch]]:
    """The batches of `loader.batches` in the same order; without workers, made in this process."""
    if workers == 0:
        return loader.batches(position)
    made: DataLoader[tuple[Position, Any]] = DataLoader(
        _WorkerBatches(loader, position),
        batch_size=None,  # they are batches already
        collate_fn=tuple,  # which they are: nothing is changed
        num_workers=workers,
        prefetch_factor=_BATCHES,
        worker_init_fn=_ignore_signals,
    )
    return ((after, unpacked(batch)) for after, batch in made)


class _WorkerBatches(IterableDataset[tuple[Position, Any]]):
    """In each of n workers, every n-th batch; one of each worker in turn gives all of them."""

    def __init__(self, loader: Loader, position: Position) -> None:
        self._loader = loader
        self._position = position

    def __iter__(self) -> Iterator[tuple[Position, Any]]:
        worker = get_worker_info()
        assert worker is not None
        turn = Turn(worker.id, worker.num_workers)
        for after, batch in self._loader.batches(self._position, turn):
            yield after, packed(batch)


def _ignore_signals(worker: int) -> None:
    """Ctrl-C reaches every process, but the training process decides what follows."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
