"""regard merge: an adapter and its origin as one model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def merge(
    adapter: Annotated[
        Path, typer.Argument(help="The folder of a run with adapters.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(help="The model folder to write.", show_default=False)],
) -> None:
    """Put an adapter and its origin together: a model folder that needs neither."""
    import torch

    from regard.cli.screen import say
    from regard.errors import ModelError
    from regard.files import require_free
    from regard.models.folder import WEIGHTS, ModelFolder, load_model, weights_of, write_tensors

    described = ModelFolder.read(adapter)
    if described.adapter is None:
        raise ModelError(f"{adapter} is no adapter: it has all its weights. Use it as it is.")
    require_free(out)
    folder, model = load_model(adapter, torch.device("cpu"), described)
    write_tensors(out / WEIGHTS, weights_of(model), {"merged": str(adapter)})
    folder.write(out)
    say(f"{adapter} and {described.adapter.origin} are one model in {out}.")
