"""Options that several verbs share, and options made from settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.bounds import Ge, Le
from regard.cli.command import Fields, choices_of, described
from regard.config import Doc, Flag, Settings, settings_of
from regard.errors import ConfigError


def setting(cls: type[Settings], name: str, *flags: str) -> Any:
    """A typer option with the documentation and the bounds of a setting."""
    found = next(s for s in settings_of(cls) if s.name == name)
    text = found.doc[0].upper() + found.doc[1:]
    return described(text, found.bounds, choices_of(found.type), *flags)


def numeric(text: str, low: float, high: float, **more: Any) -> Any:
    """A typer option for numbers from `low` to `high`; `text` is its help, without a full stop."""
    return described(text, (Ge(low), Le(high)), (), **more)


Model = Annotated[Path, typer.Argument(help="A model folder, or a run folder.", show_default=False)]
Models = Annotated[
    list[Path],
    typer.Argument(
        metavar="MODEL...",
        help="A model folder, or a run folder; several work together as an ensemble.",
        show_default=False,
    ),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace what the command writes if it exists.")
]


@dataclass(frozen=True)
class Runtime(Settings):
    """Where and how a model runs."""

    batch_size: Annotated[
        int | None,
        Doc("sentences that are processed at once; unset: what suits the backend"),
        Ge(1),
        Le(100_000),
    ] = None
    backend: Annotated[
        str,
        Doc(
            "what runs the model: torch, ctranslate2, or auto: CTranslate2 on a CPU, if it is "
            "installed and can run the model"
        ),
        Flag(formerly=("--engine",)),
    ] = "auto"
    precision: Annotated[
        str | None,
        Doc(
            "of the numbers: float32, bfloat16 (PyTorch) or int8 (CTranslate2); unset: bfloat16 on "
            "a GPU, float32 elsewhere, or as the model was exported"
        ),
    ] = None
    device: Annotated[
        str,
        Doc("where it runs: cpu, cuda, cuda:1 (the second GPU, and so on), or auto: a GPU if any"),
    ] = "auto"

    @property
    def loading(self) -> dict[str, Any]:
        """The keywords with which pipelines are loaded."""
        return {"device": self.device, "engine": self.backend, "precision": self.precision}


# For verbs that run a model in PyTorch alone.
TorchRuntime = Annotated[Runtime, Fields(only=("batch_size", "device"))]
Device = Annotated[str, setting(Runtime, "device")]
BatchSize = Annotated[int | None, setting(Runtime, "batch_size")]
Engine = Annotated[str, setting(Runtime, "backend", "--backend"), Flag(formerly=("--engine",))]
Precision = Annotated[str | None, setting(Runtime, "precision")]
Column = Annotated[
    str | None,
    typer.Option(
        help="Of words with labels: the labels' column, by its name in CoNLL-U or its number; "
        "unset: that of the model's training text, upos in other CoNLL-U, the last elsewhere.",
        show_default=False,
    ),
]
Header = Annotated[
    bool | None,
    typer.Option(
        help="Of texts with labels: whether the first line names the columns; unset: look.",
        show_default=False,
    ),
]
Teacher = Annotated[
    Path | None,
    typer.Option(
        help="A model that writes word by word, to choose among --candidates.", show_default=False
    ),
]


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
