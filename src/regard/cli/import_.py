"""regard import: a model folder of HuggingFace's becomes one of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Overwrite
from regard.cli.outputs import claim
from regard.progress import say


def import_(
    context: typer.Context,
    folder: Annotated[
        Path,
        typer.Argument(
            help="What `save_pretrained` wrote: config.json, model.safetensors, tokenizer.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="Where the model folder goes.", show_default=False)],
    overwrite: Overwrite = False,
) -> None:
    """Read a model of HuggingFace's transformers: Marian, GPT-2, BERT, RoBERTa or XLNet.

    Its weights give the same figures here, and its tokenizer cuts in the same way.
    """
    from regard.cli.suggestion import suggest
    from regard.exchange.huggingface import import_folder
    from regard.exchange.huggingface.folder import ForeignFolder

    claim(context, {"--out": out}, inputs=[folder], overwrite=overwrite, folder=True)
    suggestion = suggest(ForeignFolder(folder), import_folder(folder, out), out)
    say(f"Imported: {out}. As theirs does it: {suggestion.command}")
    if suggestion.left_out:
        say(f"What it says and this command does not do: {', '.join(suggestion.left_out)}.")
