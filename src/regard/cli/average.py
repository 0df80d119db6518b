"""regard average: averages the weights of several checkpoints of a run."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Overwrite, number_option
from regard.cli.outputs import reserve_outputs
from regard.errors import ConfigError, RunError
from regard.files import atomic_folder
from regard.progress import notify


def average(
    context: typer.Context,
    run: Annotated[Path, typer.Argument(help="Path of a run folder.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Model folder to write.", show_default=False)],
    last: Annotated[
        int | None,
        number_option("Number of last checkpoints to average; default: 5", 1, 1_000),
    ] = None,
    best: Annotated[
        int | None,
        number_option("Number of checkpoints with the best validation metric to average", 1, 1_000),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Average the weights of the last or best checkpoints of a run."""
    from regard.models.folder import WEIGHTS, ModelFolder, merged_weights, write_tensors
    from regard.training import checkpoint

    folder = ModelFolder.read(run)
    if last is not None and best is not None:
        raise ConfigError("--last and --best cannot be combined. Give one of them.")
    option, kind, count = ("--best", "validated ", best) if best else ("--last", "", last or 5)
    paths = checkpoint.checkpoint_folders(run)
    if best:
        paths = checkpoint.sort_by_metric(paths)
    if not paths:
        raise RunError(
            f"{run} has no {kind}checkpoints to average. Give a run folder with checkpoints."
        )
    if len(paths) < count:
        raise RunError(
            f"{run} has {len(paths)} {kind}checkpoints, but {count} are required. "
            f"Use {option} {len(paths)}, or train with a larger training.keep_checkpoints."
        )
    selected = sorted(paths[:count] if best else paths[-count:])
    reserve_outputs(context, {"--out": out}, inputs=[run], overwrite=overwrite, folder=True)
    mean = checkpoint.average_weights([*map(merged_weights, selected)])
    with atomic_folder(out) as temporary:
        metadata = {"averaged": ", ".join(path.name for path in selected)}
        merged = dataclasses.replace(folder, adapter=None)
        write_tensors(temporary / WEIGHTS, mean, {**merged.weights_metadata(), **metadata})
        merged.write(temporary)
    notify(f"Wrote the average of steps {', '.join(str(int(p.name)) for p in selected)} to {out}.")
