"""Options that several verbs share, and options made from settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin

import typer

from regard.bounds import Bound, Ge, Le, limits, refuse_out_of_bounds
from regard.config import Settings, settings_of
from regard.errors import ConfigError


def setting(cls: type[Settings], name: str, *flags: str) -> Any:
    """A typer option with the documentation and the bounds of a setting."""
    found = next(s for s in settings_of(cls) if s.name == name)
    choices = [found.kind] if get_origin(found.type) is Literal else []
    text = found.doc[0].upper() + found.doc[1:]
    return _option(text, found.bounds, choices, *flags)


def numeric(text: str, low: float, high: float, **more: Any) -> Any:
    """A typer option for numbers from `low` to `high`; `text` is its help, without a full stop."""
    return _option(text, (Ge(low), Le(high)), [], **more)


def bounded(*bounds: Bound) -> Callable[[typer.CallbackParam, Any], Any]:
    """A typer callback that refuses numbers, or lists of them, that are out of bounds.

    Typer's own `min` and `max` let NaN pass, and list the largest numbers in the help.
    """

    def checked(param: typer.CallbackParam, value: Any) -> Any:
        option = param.opts[0] if param.param_type_name == "option" else str(param.name)
        for one in value if isinstance(value, list | tuple) else [value]:
            refuse_out_of_bounds(option, one, *bounds)
        return value

    return checked


def _option(
    text: str, bounds: tuple[Bound, ...], choices: list[str], *flags: str, **more: Any
) -> Any:
    listed = ", ".join([*limits(bounds), *choices])
    text += f" ({listed})." if listed else "."
    callback = bounded(*bounds) if bounds else None
    return typer.Option(*flags, help=text, callback=callback, **{"show_default": True} | more)


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
Device = Annotated[
    str,
    typer.Option(
        help="cpu, cuda, cuda:1 (the second GPU, and so on), or auto: the GPU where there is one."
    ),
]
BatchSize = Annotated[
    int | None,
    numeric("Sentences that are worked on at once; unset: what suits the engine", 1, 100_000),
]
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
Engine = Annotated[
    str,
    typer.Option(
        help="torch, ctranslate2, or auto: CTranslate2 on a CPU, if it is installed and can run "
        "the model."
    ),
]
Precision = Annotated[
    str | None,
    typer.Option(
        help="float32, bfloat16 (PyTorch) or int8 (CTranslate2); unset: bfloat16 on a GPU, float32 "
        "elsewhere, or as the model was exported.",
        show_default=False,
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
