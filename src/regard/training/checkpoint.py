"""Checkpoints: everything needed to resume a run exactly, in one folder each.

    checkpoints/00001000/model.safetensors        the weights
    checkpoints/00001000/average.safetensors      their moving average, if there is one
    checkpoints/00001000/optimizer.safetensors    the state of Adam
    checkpoints/00001000/memory.safetensors       the memory of segment recurrence, if there is one
    checkpoints/00001000/progress.json            step, position in the data, metrics

Dropout and data order are functions of seed, step and position, so no random state is stored.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

import torch
from torch import Tensor, nn

from regard.config import Ge, Le, Settings
from regard.data.sampling import Position
from regard.errors import ModelError, RunError, StorageError
from regard.files import atomic_folder, remove_stale_staging, write_json
from regard.models.folder import (
    AVERAGE,
    WEIGHTS,
    load_weights,
    named_weights,
    read_tensors,
    write_tensors,
)
from regard.schema import JsonReader
from regard.training.ema import MovingAverage
from regard.training.objective import Objective
from regard.training.optimizer import optimizer_tensors, restore_optimizer

Count = Annotated[int, Ge(0), Le(2**62)]
_READER = JsonReader(
    RunError,
    "Delete the folder of that checkpoint, and run the same command again to resume from the "
    "previous one.",
    nonfinite_as_null=True,  # earlier versions wrote NaN for a missing metric
)
OPTIMIZER, PROGRESS = "optimizer.safetensors", "progress.json"
MEMORY = "memory.safetensors"


@dataclass(frozen=True)
class Progress:
    """The progress of a run."""

    step: int = 0
    position: Position = field(default_factory=Position)
    target_tokens: int = 0
    seconds: float = 0.0
    unreported: tuple[float, float, int] = (0.0, 0.0, 0)  # loss, nll, tokens since the last row
    best: float | None = None  # best validation metric so far; lower is better
    waited: int = 0  # validations without improvement
    figure: float | None = None  # validation metric of this checkpoint
    stopped_early: bool = False
    regular: bool = True  # on schedule; False if saved when the run was stopped


@dataclass(frozen=True)
class _PositionFields(Settings):
    """The fields of `progress.json` for a position in the data."""

    epoch: Count = 0
    batch: Count = 0


@dataclass(frozen=True)
class _ProgressFields(Settings):
    """The fields of `progress.json`; earlier versions did not write all of them."""

    step: Count
    position: _PositionFields
    target_tokens: Count
    seconds: Annotated[float, Ge(0)]
    unreported: tuple[float, ...]
    best: float | None = None
    waited: Count = 0
    figure: float | None = None
    stopped_early: bool = False
    regular: bool = True

    def problems(self) -> Iterator[str]:
        """Check that `unreported` has two sums and a count."""
        complete = len(self.unreported) == 3 and None not in self.unreported
        if not complete or self.unreported[2] != int(self.unreported[2]) or self.unreported[2] < 0:
            yield "unreported must be two numbers and a count"


def checkpoint_folders(run: Path) -> list[Path]:
    """The complete checkpoints of a run, oldest first."""
    return sorted(
        path for path in (run / "checkpoints").glob("*") if re.fullmatch(r"[0-9]{1,18}", path.name)
    )


def save(
    run: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    average: MovingAverage | None,
    progress: Progress,
    state: Mapping[str, Tensor] = MappingProxyType({}),
    metadata: Mapping[str, str] | None = None,
) -> Path:
    """Write a checkpoint atomically.

    `state` is the state of the objective, `metadata` that of the weight files.
    """
    path = run / "checkpoints" / f"{progress.step:08d}"
    with atomic_folder(path) as folder:
        write_tensors(folder / WEIGHTS, named_weights(model), metadata or {})
        if average:
            write_tensors(folder / AVERAGE, average.weights, metadata or {})
        write_tensors(folder / OPTIMIZER, optimizer_tensors(optimizer, model), {})
        if state:
            write_tensors(folder / MEMORY, state, {})
        write_json(folder / PROGRESS, dataclasses.asdict(progress))
    return path


def restore(
    path: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    average: MovingAverage | None,
    objective: Objective | None = None,
) -> Progress:
    """Load a checkpoint into model, optimizer, moving average and objective."""
    progress = read_progress(path)
    try:
        load_weights(model, read_tensors(path / WEIGHTS)[0], path / WEIGHTS)
        restore_optimizer(optimizer, model, read_tensors(path / OPTIMIZER)[0])
        if average:
            average.restore(read_tensors(path / AVERAGE)[0], path / AVERAGE)
        if objective and (path / MEMORY).is_file():
            objective.restore(read_tensors(path / MEMORY)[0])
    except (ModelError, StorageError) as error:
        raise _damaged(path, error) from None
    return progress


def read_progress(path: Path) -> Progress:
    """The progress of a run at a checkpoint."""
    if not (path / PROGRESS).exists():
        raise _damaged(path, f"{PROGRESS} is missing")
    fields = _READER.build(_ProgressFields, _READER.read_object(path / PROGRESS), path / PROGRESS)
    if path.name.isdigit() and fields.step != int(path.name):
        raise _damaged(path, f"{PROGRESS} has step {fields.step}")
    loss, nll, tokens = fields.unreported
    return Progress(
        **{
            **vars(fields),
            "position": Position(fields.position.epoch, fields.position.batch),
            "unreported": (loss, nll, int(tokens)),
        }
    )


def _damaged(path: Path, reason: object) -> RunError:
    return RunError(
        f"The checkpoint {path} is damaged ({reason}). Delete that folder, and run the same "
        "command again to resume from the previous one."
    )


def prune(run: Path, *, last: int, best: int) -> None:
    """Remove checkpoints other than the last and the best, and stale staging folders."""
    remove_stale_staging(run / "checkpoints")
    paths = checkpoint_folders(run)
    kept = {*last_checkpoints(run, last), *best_checkpoints(run, best), paths[-1]}
    for path in paths:
        if path not in kept:
            shutil.rmtree(path)


def last_checkpoints(run: Path, count: int) -> list[Path]:
    """Up to `count` last checkpoints, without those saved when a run was stopped."""
    regular = [path for path in checkpoint_folders(run) if read_progress(path).regular]
    return regular[-count:] if count else []


def best_checkpoints(run: Path, count: int) -> list[Path]:
    """Up to `count` checkpoints with the best validation metric, best first."""
    return sort_by_metric(last_checkpoints(run, sys.maxsize))[:count]


def sort_by_metric(paths: Sequence[Path]) -> list[Path]:
    """The validated checkpoints among these, best first."""
    metrics = {path: read_progress(path).figure for path in paths}
    validated = {path: metric for path, metric in metrics.items() if metric is not None}
    return sorted(validated, key=lambda path: validated[path])


def average_weights(weights: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The average of several sets of weights, summed in float64."""
    assert weights
    sums = {name: tensor.double() for name, tensor in weights[0].items()}
    for other in weights[1:]:
        for name, tensor in other.items():
            sums[name] = sums[name] + tensor.double()
    return {name: (total / len(weights)).float() for name, total in sums.items()}
