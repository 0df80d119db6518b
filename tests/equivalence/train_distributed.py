"""One rank of a distributed test: trains a list of runs, one after the other.

torchrun train_distributed.py RUNS: a JSON file with a list of settings.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

from regard.config import build
from regard.data.store import Store
from regard.distributed import distributed_context
from regard.tasks import task_of
from regard.training.config import RunConfig
from regard.training.loop import train


class NoCallback:
    """A callback that does nothing."""

    def on_train_begin(self, step: int, max_steps: int, description: str) -> None:
        pass

    def on_step_end(self, step: int) -> None:
        pass

    def on_log(self, row: dict[str, Any]) -> None:
        pass


def main(runs: Path) -> None:
    with distributed_context() as distributed:
        assert distributed.world_size > 1
        for tree in json.loads(runs.read_text()):
            config = build(RunConfig, tree)
            store = Store(Path(config.data.folder))
            task, cpu = task_of(config.model), torch.device("cpu")
            train(config, store, task, cpu, callback=NoCallback(), distributed=distributed)
            distributed.barrier()  # rank 0 has saved: the next run may resume from there


if __name__ == "__main__":
    main(Path(sys.argv[1]))
