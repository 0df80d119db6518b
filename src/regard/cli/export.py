"""regard export: a trained model for another engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import Model
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.models.folder import ModelFolder
    from regard.models.transformer import Transformer


def export(
    model: Model,
    to: Annotated[str, typer.Option(help="ctranslate2 or argos.", show_default=False)],
    out: Annotated[
        Path, typer.Option(help="Where it goes: a folder, or an .argosmodel.", show_default=False)
    ],
    precision: Annotated[
        str | None,
        typer.Option(
            help="Of the weights: float32, int8, int16, float16 or bfloat16; unset: float32, and "
            "int8 for argos.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write a model for another engine: CTranslate2, or Argos Translate and LibreTranslate."""
    if to not in TARGETS:
        raise ConfigError(f"There is no {to!r} to export to. Use {' or '.join(TARGETS)}.")
    target = TARGETS[to]
    chosen = precision or target.precisions[0]
    if chosen not in target.precisions:
        known = ", ".join(target.precisions)
        raise ConfigError(f"{to} has no precision {chosen!r}. Use one of {known}.")

    import torch

    from regard.cli.screen import say
    from regard.exchange.ctranslate2 import refuse_exported
    from regard.files import require_free
    from regard.models.folder import load_model

    require_free(out)
    refuse_exported(model)
    say(target.write(*load_model(model, torch.device("cpu")), out, chosen))


@dataclass(frozen=True)
class Target:
    """Something to export to."""

    precisions: tuple[str, ...]  # the first is taken if nothing is said
    write: Callable[[ModelFolder, Transformer, Path, Any], str]  # and tell what to do with it


def _ctranslate2(folder: ModelFolder, model: Transformer, out: Path, precision: Any) -> str:
    from regard.exchange.ctranslate2 import ENGINE, export

    export(folder, model, out, precision=precision)
    return (
        f"Written: {out}. Try: regard translate {out} < your.txt\n"
        f"CTranslate2 itself reads {out / ENGINE}."
    )


def _argos(folder: ModelFolder, model: Transformer, out: Path, precision: Any) -> str:
    from regard.exchange.argos import export

    export(folder, model, out, precision=precision)
    return (
        f"Written: {out}. Argos Translate and LibreTranslate have it after this line of Python:\n"
        f"  import argostranslate.package as p; p.install_from_path({str(out)!r})"
    )


TARGETS = {
    "ctranslate2": Target(("float32", "int8", "int16", "float16", "bfloat16"), _ctranslate2),
    "argos": Target(("int8", "float32", "int16", "float16", "bfloat16"), _argos),
}
