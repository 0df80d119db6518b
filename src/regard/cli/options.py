"""Options that several verbs share, and options made from settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, get_origin

import typer

from regard.config import Settings, settings_of


def setting(cls: type[Settings], name: str, *flags: str) -> Any:
    """A typer option whose help is the setting's own documentation."""
    found = next(s for s in settings_of(cls) if s.name == name)
    limits = [str(bound) for bound in found.bounds]
    if get_origin(found.type) is Literal:
        limits.append(found.kind)
    text = found.doc[0].upper() + found.doc[1:] + (f" ({', '.join(limits)})" if limits else "")
    return typer.Option(*flags, help=f"{text}.", show_default=True)


Model = Annotated[Path, typer.Argument(help="A model folder, or a run folder.", show_default=False)]
Models = Annotated[
    list[Path],
    typer.Argument(
        metavar="MODEL...",
        help="A model folder, or a run folder; several work together as an ensemble.",
        show_default=False,
    ),
]
Device = Annotated[str, typer.Option(help="cpu, cuda, or auto: the GPU where there is one.")]
BatchSize = Annotated[
    int | None,
    typer.Option(help="Sentences that are worked on at once; unset: what suits the engine.", min=1),
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
