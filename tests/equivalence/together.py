"""One process of several that train some runs, one after the other; torchrun starts it.

torchrun together.py RUNS: a JSON file with a list of settings.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

from regard.config import build
from regard.data.store import Store
from regard.processes import joined
from regard.tasks import task_of
from regard.training.config import RunConfig
from regard.training.loop import train


class Nobody:
    """A watcher that does not look."""

    def begin(self, step: int, max_steps: int, about: str) -> None:
        pass

    def step(self, step: int) -> None:
        pass

    def row(self, row: dict[str, Any]) -> None:
        pass


def main(runs: Path) -> None:
    with joined() as team:
        assert team.size > 1
        for tree in json.loads(runs.read_text()):
            config = build(RunConfig, tree)
            store = Store(Path(config.data.folder))
            task, cpu = task_of(config.model), torch.device("cpu")
            train(config, store, task, cpu, watcher=Nobody(), team=team)
            team.wait()  # until the first has saved: the next run may go on from there


if __name__ == "__main__":
    main(Path(sys.argv[1]))
