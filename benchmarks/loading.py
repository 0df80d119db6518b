"""How many target tokens a second the loader delivers, to be compared with what training takes.

    python benchmarks/loading.py data/multi30k-en-de --workers 0 1 2

The first epoch with subword sampling finds the ways to cut each word and is slower; it is passed
over, and timed apart.
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
from regard.data.prefetch import prefetched
from regard.data.sampling import Position
from regard.data.store import Store


def main() -> None:
    """Print a line for each way to load."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="a prepared folder")
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--candidates", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--batches", type=int, default=200, help="in each of the rounds")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    store = Store(options.data)
    for candidates in options.candidates:
        config = DataConfig(
            batch_tokens=options.batch_tokens,
            sampling_candidates=candidates,
            sampling_temperature=2.0,
        )
        pairs = PairDataset.of(store, store.part("train"), config, seed=1)
        loader = Loader(pairs, options.batch_tokens, seed=1)
        ways = {workers: prefetched(loader, Position(), workers) for workers in options.workers}
        first = {workers: speed(batches, options.batches) for workers, batches in ways.items()}
        rounds = [
            {workers: speed(batches, options.batches) for workers, batches in ways.items()}
            for _ in range(options.rounds)  # in turns, so that a busy machine is busy for all
        ]
        for workers in ways:
            speeds = [each[workers] for each in rounds]
            print(
                f"{candidates:3} ways to cut, {workers} workers: "
                f"{statistics.median(speeds):12,.0f} target tokens/s "
                f"({min(speeds):,.0f} to {max(speeds):,.0f}; at first {first[workers]:,.0f})"
            )


def speed(batches: Iterator[tuple[Position, Batch]], count: int) -> float:
    """Target tokens a second over the next batches."""
    begin = time.monotonic()
    tokens = sum(batch.target_tokens for _, batch in islice(batches, count))
    return tokens / (time.monotonic() - begin)


if __name__ == "__main__":
    main()
