"""Checkpoints: everything that a run needs to go on exactly, in one folder each.

    checkpoints/00001000/model.safetensors        the weights
    checkpoints/00001000/average.safetensors      their moving average, if there is one
    checkpoints/00001000/optimizer.safetensors    Adam's memory
    checkpoints/00001000/memory.safetensors       what the model remembers of the last batch, if it
                                                  does: weights that are gone made it
    checkpoints/00001000/progress.json            step, position in the data, what was seen so far

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
from regard.files import clear_leftovers, whole_folder, write_json
from regard.models.folder import (
    AVERAGE,
    WEIGHTS,
    put_weights,
    read_tensors,
    weights_of,
    write_tensors,
)
from regard.schema import JsonReader
from regard.training.ema import MovingAverage
from regard.training.objective import Objective
from regard.training.optimizer import optimizer_tensors, restore_optimizer

Count = Annotated[int, Ge(0), Le(2**62)]
_READER = JsonReader(
    RunError,
    "Delete the folder of that checkpoint, and the same command goes on from the one before.",
    nonfinite_as_null=True,  # earlier versions wrote NaN for a figure that does not exist
)
OPTIMIZER, PROGRESS = "optimizer.safetensors", "progress.json"
MEMORY = "memory.safetensors"


@dataclass(frozen=True)
class Progress:
    """How far a run has come."""

    step: int = 0
    position: Position = field(default_factory=Position)
    target_tokens: int = 0
    seconds: float = 0.0
    unreported: tuple[float, float, int] = (0.0, 0.0, 0)  # loss, nll, tokens since the last row
    best: float | None = None  # the watched validation figure
    waited: int = 0  # validations since then
    figure: float | None = None  # of this checkpoint itself
    stopped_early: bool = False
    regular: bool = True  # on schedule; False where a stop made it


@dataclass(frozen=True)
class _PositionFields(Settings):
    """A position in the data, as a file has it."""

    epoch: Count = 0
    batch: Count = 0


@dataclass(frozen=True)
class _ProgressFields(Settings):
    """The fields of `progress.json`; an earlier version may not have written all of them."""

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
        """The sums since the last row are three, the last of them a count."""
        whole = len(self.unreported) == 3 and None not in self.unreported
        if not whole or self.unreported[2] != int(self.unreported[2]) or self.unreported[2] < 0:
            yield "unreported must be two numbers and a count"


def folders(run: Path) -> list[Path]:
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
    notes: Mapping[str, str] | None = None,
) -> Path:
    """Write a checkpoint, whole or not at all.

    `state` is that of the objective, `notes` say what the weights belong to.
    """
    path = run / "checkpoints" / f"{progress.step:08d}"
    with whole_folder(path) as folder:
        write_tensors(folder / WEIGHTS, weights_of(model), notes or {})
        if average:
            write_tensors(folder / AVERAGE, average.weights, notes or {})
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
    """Put a checkpoint back into model, optimizer, moving average and objective."""
    progress = read_progress(path)
    try:
        put_weights(model, read_tensors(path / WEIGHTS)[0], path / WEIGHTS)
        restore_optimizer(optimizer, model, read_tensors(path / OPTIMIZER)[0])
        if average:
            average.restore(read_tensors(path / AVERAGE)[0], path / AVERAGE)
        if objective and (path / MEMORY).is_file():
            objective.restore(read_tensors(path / MEMORY)[0])
    except (ModelError, StorageError) as error:
        raise _damaged(path, error) from None
    return progress


def read_progress(path: Path) -> Progress:
    """How far a checkpoint is."""
    if not (path / PROGRESS).exists():
        raise _damaged(path, f"{PROGRESS} is missing")
    found = _READER.build(_ProgressFields, _READER.table(path / PROGRESS), path / PROGRESS)
    if path.name.isdigit() and found.step != int(path.name):
        raise _damaged(path, f"{PROGRESS} says step {found.step}")
    loss, nll, tokens = found.unreported
    return Progress(
        **{
            **vars(found),
            "position": Position(found.position.epoch, found.position.batch),
            "unreported": (loss, nll, int(tokens)),
        }
    )


def _damaged(path: Path, reason: object) -> RunError:
    return RunError(
        f"The checkpoint {path} is damaged ({reason}). Delete that folder, and the same command "
        "goes on from the one before."
    )


def prune(run: Path, *, last: int, best: int) -> None:
    """Keep the last and the best checkpoints; remove the others, and what a kill left."""
    clear_leftovers(run / "checkpoints")
    paths = folders(run)
    needed = {*last_of(run, last), *best_of(run, best), paths[-1]}
    for path in paths:
        if path not in needed:
            shutil.rmtree(path)


def last_of(run: Path, count: int) -> list[Path]:
    """Up to `count` last checkpoints on schedule; one that a stop made does not count."""
    regular = [path for path in folders(run) if read_progress(path).regular]
    return regular[-count:] if count else []


def best_of(run: Path, count: int) -> list[Path]:
    """Up to `count` checkpoints on schedule that validated best, the best first."""
    return best_first(last_of(run, sys.maxsize))[:count]


def best_first(paths: Sequence[Path]) -> list[Path]:
    """The validated ones of these checkpoints, the best first."""
    figures = {path: read_progress(path).figure for path in paths}
    known = {path: figure for path, figure in figures.items() if figure is not None}
    return sorted(known, key=lambda path: known[path])


def average(weights: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several sets of weights, summed in float64."""
    assert weights
    sums = {name: tensor.double() for name, tensor in weights[0].items()}
    for other in weights[1:]:
        for name, tensor in other.items():
            sums[name] = sums[name] + tensor.double()
    return {name: (total / len(weights)).float() for name, total in sums.items()}
