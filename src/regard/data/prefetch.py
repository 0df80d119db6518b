"""Prefetching of batches by worker processes."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from regard.data.batch import Batch, from_numpy, to_numpy
from regard.data.loader import Loader
from regard.data.sampling import Position, Shard

_PREFETCH_FACTOR = 8  # batches per worker


def prefetch_batches(
    loader: Loader, position: Position, workers: int
) -> Iterator[tuple[Position, Batch]]:
    """The batches of `loader.batches`, in the same order; with 0 workers, in this process."""
    if workers == 0:
        return loader.batches(position)
    batches: DataLoader[tuple[Position, Any]] = DataLoader(
        _WorkerBatches(loader, position),
        batch_size=None,  # items are batches
        collate_fn=tuple,  # items are tuples: no change
        num_workers=workers,
        prefetch_factor=_PREFETCH_FACTOR,
        worker_init_fn=_ignore_signals,
    )
    return ((after, from_numpy(batch)) for after, batch in batches)


class _WorkerBatches(IterableDataset[tuple[Position, Any]]):
    """Every n-th batch in each of n workers, so that round-robin order is the loader's order."""

    def __init__(self, loader: Loader, position: Position) -> None:
        self._loader = loader
        self._position = position

    def __iter__(self) -> Iterator[tuple[Position, Any]]:
        worker = get_worker_info()
        assert worker is not None
        shard = Shard(worker.id, worker.num_workers)
        for after, batch in self._loader.batches(self._position, shard):
            yield after, to_numpy(batch)


def _ignore_signals(worker: int) -> None:
    """Ignore signals in workers: Ctrl-C is sent to all processes, and the main one handles it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
