"""regard import: converts a HuggingFace model folder to a regard model folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Overwrite
from regard.cli.outputs import reserve_outputs
from regard.progress import notify


def import_(
    context: typer.Context,
    folder: Annotated[
        Path,
        typer.Argument(
            help="Folder written by `save_pretrained`: config.json, model.safetensors, tokenizer.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="Model folder to write.", show_default=False)],
    overwrite: Overwrite = False,
) -> None:
    """Convert a model of HuggingFace transformers: Marian, GPT-2, BERT, RoBERTa or XLNet.

    Outputs and tokenization are the same as in transformers.
    """
    from regard.cli.generation_config import suggest_command
    from regard.exchange.huggingface import import_folder
    from regard.exchange.huggingface.folder import HuggingFaceFolder

    reserve_outputs(context, {"--out": out}, inputs=[folder], overwrite=overwrite, folder=True)
    suggestion = suggest_command(HuggingFaceFolder(folder), import_folder(folder, out), out)
    notify(f"Wrote {out}. Next, with its generation config: {suggestion.command}")
    if suggestion.unsupported:
        notify(
            f"Unsupported settings of its generation config: {', '.join(suggestion.unsupported)}."
        )
