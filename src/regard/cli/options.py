"""Arguments and options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from regard.bounds import Ge, Le
from regard.cli.command import Fields, described
from regard.decoding.config import Runtime
from regard.errors import ConfigError


def numeric(text: str, low: float, high: float, **more: Any) -> Any:
    """A typer option for numbers from `low` to `high`; `text` is its help, without a full stop."""
    return described(text, (Ge(low), Le(high)), (), **more)


def argument(help: str, metavar: str | None = None) -> Any:
    """A typer argument, without its default in the help."""
    return typer.Argument(metavar=metavar, help=help, show_default=False)


Model = Annotated[Path, argument("A model folder, or a run folder.")]
Models = Annotated[
    list[Path],
    argument("A model folder, or a run folder; several work together as an ensemble.", "MODEL..."),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace what the command writes if it exists.")
]
# For verbs that run a model in PyTorch alone.
TorchRuntime = Annotated[Runtime, Fields(only=("batch_size", "device"))]
DeviceOnly = Annotated[Runtime, Fields(only=("device",))]


def _each_once(assignments: list[str] | None) -> list[str] | None:
    """Refuse a setting that is given twice, as an option would be."""
    names = [assignment.partition("=")[0].strip() for assignment in assignments or []]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"--set {name} is given more than once. Give it once.")
    return assignments


Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="section.name=value; `regard show settings` lists all.",
        callback=_each_once,
    ),
]
