"""regard average: the mean of a run's last or best checkpoints as a model of its own."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Overwrite, numeric
from regard.cli.outputs import claim
from regard.errors import ConfigError, RunError
from regard.files import whole_folder
from regard.progress import say


def average(
    context: typer.Context,
    run: Annotated[Path, typer.Argument(help="A run folder.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The model folder to write.", show_default=False)],
    last: Annotated[
        int | None,
        numeric("So many of the last checkpoints; 5 if nothing is said", 1, 1_000),
    ] = None,
    best: Annotated[
        int | None, numeric("So many of those kept that validated best", 1, 1_000)
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Average the weights of a run's last or best checkpoints."""
    from regard.models.folder import WEIGHTS, ModelFolder, whole_weights, write_tensors
    from regard.training import checkpoint

    folder = ModelFolder.read(run)
    if last is not None and best is not None:
        raise ConfigError("--last and --best are two ways to choose. Give one of them.")
    option, kind, count = ("--best", "validated ", best) if best else ("--last", "", last or 5)
    paths = checkpoint.folders(run)
    if best:
        paths = checkpoint.best_first(paths)
    if not paths:
        raise RunError(
            f"{run} has no {kind}checkpoints to average. Give the folder of a training run."
        )
    if len(paths) < count:
        raise RunError(
            f"{run} has {len(paths)} {kind}checkpoints, not {count}. Use {option} {len(paths)}, "
            "or train with a larger training.keep_checkpoints."
        )
    chosen = sorted(paths[:count] if best else paths[-count:])
    claim(context, {"--out": out}, inputs=[run], overwrite=overwrite, folder=True)
    mean = checkpoint.average([*map(whole_weights, chosen)])
    with whole_folder(out) as temporary:
        notes = {"averaged": ", ".join(path.name for path in chosen)}
        whole = dataclasses.replace(folder, adapter=None)
        write_tensors(temporary / WEIGHTS, mean, {**whole.weights_note(), **notes})
        whole.write(temporary)
    say(f"The mean of steps {', '.join(str(int(p.name)) for p in chosen)} is in {out}.")
