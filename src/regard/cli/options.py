"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from regard.bounds import Ge, Le
from regard.cli.command import Fields, make_option
from regard.decoding.runtime import Runtime
from regard.errors import ConfigError


def number_option(text: str, low: float, high: float, **more: Any) -> Any:
    """A typer option for numbers from `low` to `high`; `text` is its help without a full stop."""
    return make_option(text, (Ge(low), Le(high)), (), **more)


def argument(help: str, metavar: str | None = None) -> Any:
    """A typer argument whose help does not show a default."""
    return typer.Argument(metavar=metavar, help=help, show_default=False)


Model = Annotated[Path, argument("Path of a model folder or run folder.")]
Models = Annotated[
    list[Path],
    argument("Paths of model or run folders; several are decoded as an ensemble.", "MODEL..."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Overwrite existing output.")]
# For commands that only support the torch backend.
TorchRuntime = Annotated[Runtime, Fields(only=("batch_size", "device"))]
DeviceOnly = Annotated[Runtime, Fields(only=("device",))]


def _refuse_repeated(assignments: list[str] | None) -> list[str] | None:
    """Raise an error if a setting is assigned twice, as for options."""
    names = [assignment.partition("=")[0].strip() for assignment in assignments or []]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"--set {name} is given more than once. Give it once.")
    return assignments


Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Override a setting, as section.name=value; may be repeated. "
        "`regard show settings` lists all settings.",
        callback=_refuse_repeated,
    ),
]
