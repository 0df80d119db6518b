"""regard merge: an adapter and its origin as one model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Overwrite
from regard.cli.outputs import claim
from regard.errors import ModelError
from regard.files import whole_folder
from regard.progress import say


def merge(
    context: typer.Context,
    adapter: Annotated[
        Path, typer.Argument(help="The folder of a run with adapters.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(help="The model folder to write.", show_default=False)],
    overwrite: Overwrite = False,
) -> None:
    """Put an adapter and its origin together: a model folder that needs neither."""
    import torch

    from regard.models.folder import WEIGHTS, ModelFolder, load_model, weights_of, write_tensors

    described = ModelFolder.read(adapter)
    if described.adapter is None:
        raise ModelError(f"{adapter} is no adapter: it has all its weights. Use it as it is.")
    inputs = [adapter, described.adapter.origin]
    claim(context, {"--out": out}, inputs=inputs, overwrite=overwrite, folder=True)
    folder, model = load_model(adapter, torch.device("cpu"), described)
    with whole_folder(out) as temporary:
        notes = {**folder.weights_note(), "merged": str(adapter)}
        write_tensors(temporary / WEIGHTS, weights_of(model), notes)
        folder.write(temporary)
    say(f"{adapter} and {described.adapter.origin} are one model in {out}.")
