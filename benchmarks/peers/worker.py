"""A worker process that trains with one library.

    python -m peers.worker plain_torch compiled task.json

It prints `{}` after its warm-up. For each line of standard input it runs a round and prints the
measurement as JSON. So a compiled model is compiled once for all rounds.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from comparison import Tree
from memory import peak_memory
from training_task import Pair, TrainingTask


class Trainer(Protocol):
    """Training of a model with some library."""

    def load(self, pairs: Sequence[Pair]) -> Any:
        """A batch in the library's format."""
        ...

    def target_tokens(self, batch: Any) -> int:
        """The number of tokens in the library's loss of a batch."""
        ...

    def update(self, batch: Any) -> Tensor:
        """Train on a batch; returns the loss per token, on the device."""
        ...


def make_trainer(peer: str, task: TrainingTask, variant: str) -> Trainer:
    """The trainer of `peers/PEER.py`, in one of its variants."""
    torch.manual_seed(task.seed)
    trainer: Trainer = importlib.import_module(f"peers.{peer}").trainer(task, variant)
    return trainer


class Rounds:
    """Rounds over the same batches, after a warm-up with other batches."""

    def __init__(
        self, task: TrainingTask, trainer: Trainer, *, warm_up_shapes: bool = False
    ) -> None:
        self._trainer = trainer
        self._gpu = task.device == "cuda"
        self._warm_up_shapes = warm_up_shapes
        batches = [trainer.load(batch) for batch in task.batches()]
        self._first, self._timed = batches[: task.warmup], batches[task.warmup :]

    def warm_up(self) -> None:
        """Run updates that are not timed: compilation, first allocations.

        If shapes are compiled at their first use or captured at their second, the timed batches
        are used twice as well.
        """
        for batch in [*self._first, *(self._timed * 2 if self._warm_up_shapes else [])]:
            self._trainer.update(batch)
        self._free_memory()

    def run_round(self) -> Tree:
        """Run one round; returns the fields of `comparison.Round`."""
        if self._gpu:
            self._trainer.update(self._timed[-1])  # allocate memory again, raise the GPU's clock
        self._synchronize()
        begin = time.perf_counter()
        losses = [self._trainer.update(batch) for batch in self._timed]
        self._synchronize()
        seconds = time.perf_counter() - begin
        counts = [self._trainer.target_tokens(batch) for batch in self._timed]
        weighted = sum(n * float(loss) for n, loss in zip(counts, losses, strict=True))
        memory = peak_memory("cuda" if self._gpu else "cpu")
        self._free_memory()
        return {
            "amount": sum(counts),
            "seconds": seconds,
            "memory": memory,
            "metrics": {"loss": weighted / sum(counts)},
        }

    def _synchronize(self) -> None:
        if self._gpu:
            torch.cuda.synchronize()

    def _free_memory(self) -> None:
        """Free the GPU memory for the next system."""
        self._synchronize()
        if self._gpu:
            torch.cuda.empty_cache()


def main(peer: str, variant: str, path: str) -> None:
    """Warm up, then run a round for each line of standard input."""
    responses = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries must not mix with the responses
    task = TrainingTask.read(Path(path))
    if task.device == "cpu":
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    warm_up_shapes = variant == "compiled" or task.device == "cuda"
    rounds = Rounds(task, make_trainer(peer, task, variant), warm_up_shapes=warm_up_shapes)
    rounds.warm_up()
    print("{}", file=responses, flush=True)
    for _ in sys.stdin:
        print(json.dumps(rounds.run_round()), file=responses, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
