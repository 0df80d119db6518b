"""A contestant that lives in a Python process of its own, and does a round whenever it is told.

    python -m peers.worker plain_torch compiled lesson.json

It says `{}` once it is warm, and for each line that it reads it does a round and says how it went.
So a compiled model is compiled once, and may wait while others have their turn.
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

from contest import Tree
from lesson import Lesson, Pair
from memory import peak_memory


class Learner(Protocol):
    """A model under training in some library."""

    def load(self, pairs: Sequence[Pair]) -> Any:
        """A batch as the library wants it."""
        ...

    def target_tokens(self, batch: Any) -> int:
        """How many tokens the library's loss counts in a batch."""
        ...

    def update(self, batch: Any) -> Tensor:
        """Learn from a batch; the loss of a token, still on the device."""
        ...


def make_learner(peer: str, lesson: Lesson, form: str) -> Learner:
    """The learner of `peers/PEER.py`, in one of its forms."""
    torch.manual_seed(lesson.seed)
    learner: Learner = importlib.import_module(f"peers.{peer}").learner(lesson, form)
    return learner


class Rounds:
    """The same batches in every round, after a warm-up with others."""

    def __init__(self, lesson: Lesson, learner: Learner, *, meets_shapes: bool = False) -> None:
        self._learner = learner
        self._gpu = lesson.device == "cuda"
        self._meets_shapes = meets_shapes
        batches = [learner.load(batch) for batch in lesson.batches()]
        self._first, self._timed = batches[: lesson.warmup], batches[lesson.warmup :]

    def warm_up(self) -> None:
        """Updates that nobody counts: compiling, first allocations.

        Where a shape is compiled when it is first met, or recorded when it is met again, the
        batches of the rounds come twice, too.
        """
        for batch in [*self._first, *(self._timed * 2 if self._meets_shapes else [])]:
            self._learner.update(batch)
        self._rest()

    def measured(self) -> Tree:
        """One round, as the fields of `contest.Round`."""
        if self._gpu:
            self._learner.update(self._timed[-1])  # what was given back, and an idle GPU's clock
        self._finish()
        begin = time.perf_counter()
        losses = [self._learner.update(batch) for batch in self._timed]
        self._finish()
        seconds = time.perf_counter() - begin
        counts = [self._learner.target_tokens(batch) for batch in self._timed]
        weighted = sum(n * float(loss) for n, loss in zip(counts, losses, strict=True))
        memory = peak_memory("cuda" if self._gpu else "cpu")
        self._rest()
        return {
            "amount": sum(counts),
            "seconds": seconds,
            "memory": memory,
            "figures": {"loss": weighted / sum(counts)},
        }

    def _finish(self) -> None:
        if self._gpu:
            torch.cuda.synchronize()

    def _rest(self) -> None:
        """Leave the memory of a GPU to the next contestant."""
        self._finish()
        if self._gpu:
            torch.cuda.empty_cache()


def main(peer: str, form: str, path: str) -> None:
    """Warm up, then a round for each line of the standard input."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no answer
    lesson = Lesson.read(Path(path))
    if lesson.device == "cpu":
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    meets_shapes = form == "compiled" or lesson.device == "cuda"
    rounds = Rounds(lesson, make_learner(peer, lesson, form), meets_shapes=meets_shapes)
    rounds.warm_up()
    print("{}", file=answers, flush=True)
    for _ in sys.stdin:
        print(json.dumps(rounds.measured()), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
