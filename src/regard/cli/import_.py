"""regard import: a model folder of HuggingFace's becomes one of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def import_(
    folder: Annotated[
        Path,
        typer.Argument(
            help="What `save_pretrained` wrote: config.json, model.safetensors, tokenizer.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="Where the model folder goes.", show_default=False)],
) -> None:
    """Read a model of HuggingFace's transformers: Marian.

    Its weights give the same figures here, and its tokenizer cuts in the same way.
    """
    from regard.cli.screen import say
    from regard.exchange.huggingface import import_folder
    from regard.exchange.huggingface.folder import ForeignFolder
    from regard.exchange.huggingface.generation import left_out, options
    from regard.files import require_free

    require_free(out)
    import_folder(folder, out)
    theirs = ForeignFolder(folder)
    say(f"Imported: {out}. To search as its generation_config.json says:")
    say(f"  regard translate {out} --engine torch {' '.join(options(theirs))} < your.txt")
    if missing := left_out(theirs):
        say(f"What it says and regard has no option for: {', '.join(missing)}.")
