"""Throughput of the data loader in target tokens per second.

    python benchmarks/loading.py data/multi30k-en-de --workers 0 1 2

The first epoch with subword regularization is slower, since it computes the segmentations of each
word; it is timed separately.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from regard.data.batch import Batch
from regard.data.loader import DataConfig, Loader
from regard.data.pairs import PairDataset
from regard.data.prefetch import prefetch_batches
from regard.data.sampling import Position
from regard.data.store import Store


def main() -> None:
    """Print a line for each number of candidates and workers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="prepared folder")
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--candidates", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--batches", type=int, default=200, help="batches per round")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    store = Store(options.data)
    for candidates in options.candidates:
        config = DataConfig(
            batch_tokens=options.batch_tokens,
            subword_nbest_size=candidates,
            subword_temperature=2.0,
        )
        pairs = PairDataset.of(store, store.part("train"), config, seed=1)
        loader = Loader(pairs, options.batch_tokens, seed=1)
        loaders = {
            workers: prefetch_batches(loader, Position(), workers) for workers in options.workers
        }
        first = {workers: speed(batches, options.batches) for workers, batches in loaders.items()}
        rounds = [
            {workers: speed(batches, options.batches) for workers, batches in loaders.items()}
            for _ in range(options.rounds)  # interleaved, so that other load affects all
        ]
        for workers in loaders:
            speeds = [each[workers] for each in rounds]
            print(
                f"{candidates:3} segmentations, {workers} workers: "
                f"{statistics.median(speeds):12,.0f} target tokens/s "
                f"({min(speeds):,.0f} to {max(speeds):,.0f}; first epoch {first[workers]:,.0f})"
            )


def speed(batches: Iterator[tuple[Position, Batch]], count: int) -> float:
    """Target tokens per second over the next batches."""
    begin = time.monotonic()
    tokens = sum(batch.target_tokens for _, batch in islice(batches, count))
    return tokens / (time.monotonic() - begin)


if __name__ == "__main__":
    main()
