"""regard merge: merges an adapter into its base model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Overwrite
from regard.cli.outputs import reserve_outputs
from regard.errors import ModelError
from regard.files import atomic_folder
from regard.progress import notify


def merge(
    context: typer.Context,
    adapter: Annotated[Path, typer.Argument(help="Run folder of an adapter.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Model folder to write.", show_default=False)],
    overwrite: Overwrite = False,
) -> None:
    """Merge an adapter into its base model, and write a model folder without adapters."""
    import torch

    from regard.models.folder import WEIGHTS, ModelFolder, load_model, named_weights, write_tensors

    description = ModelFolder.read(adapter)
    if description.adapter is None:
        raise ModelError(f"{adapter} is not an adapter: it contains all weights. Use it directly.")
    inputs = [adapter, description.adapter.base_model]
    reserve_outputs(context, {"--out": out}, inputs=inputs, overwrite=overwrite, folder=True)
    folder, model = load_model(adapter, torch.device("cpu"), description)
    with atomic_folder(out) as temporary:
        metadata = {**folder.weights_metadata(), "merged": str(adapter)}
        write_tensors(temporary / WEIGHTS, named_weights(model), metadata)
        folder.write(temporary)
    notify(f"Wrote {out}: {description.adapter.base_model} merged with {adapter}.")
