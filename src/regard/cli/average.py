"""regard average: the mean of a run's last checkpoints as a model of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def average(
    run: Annotated[Path, typer.Argument(help="A run folder.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The model folder to write.", show_default=False)],
    last: Annotated[int, typer.Option(help="How many checkpoints.", min=1)] = 5,
) -> None:
    """Average the weights of a run's last checkpoints."""
    from regard.cli.screen import say
    from regard.errors import RunError, StorageError
    from regard.models.folder import WEIGHTS, ModelFolder, write_tensors
    from regard.training import checkpoint

    folder = ModelFolder.read(run)
    paths = checkpoint.folders(run)
    if not paths:
        raise RunError(f"{run} has no checkpoints to average. Give the folder of a training run.")
    if len(paths) < last:
        raise RunError(
            f"{run} has {len(paths)} checkpoints, not {last}. Use --last {len(paths)}, or "
            "train with a larger training.keep_checkpoints."
        )
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise StorageError(f"{out} exists, so it is left as it is. Choose another --out.")
    chosen = paths[-last:]
    mean = checkpoint.average([*map(checkpoint.shown_weights, chosen)])
    write_tensors(out / WEIGHTS, mean, {"averaged": ", ".join(path.name for path in chosen)})
    folder.write(out)
    say(f"The mean of steps {', '.join(str(int(p.name)) for p in chosen)} is in {out}.")
