"""regard embed: text from standard input, a vector for each line to standard output."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, get_args

import typer

from regard.cli.options import BatchSize, Device, Model, Overwrite
from regard.cli.outputs import claim
from regard.errors import ConfigError
from regard.json_text import dumps


def embed(
    context: typer.Context,
    model: Model,
    pool: Annotated[str, typer.Option(help="Of a line's tokens: mean, first or last.")] = "mean",
    normalize: Annotated[
        bool, typer.Option("--normalize/--raw", help="Vectors of length 1, or as they are.")
    ] = True,
    out: Annotated[
        Path | None,
        typer.Option(
            help="A .npy file for all vectors; unset: JSON, one a line.", show_default=False
        ),
    ] = None,
    overwrite: Overwrite = False,
    batch_size: BatchSize = None,
    device: Device = "auto",
) -> None:
    """A vector for each line of standard input: like lines have like vectors."""
    from regard.cli.piped import portions
    from regard.cli.screen import say, sparingly
    from regard.decoding.embedder import Embedder, Pool
    from regard.files import whole_file

    if pool not in get_args(Pool):
        raise ConfigError(f"There is no --pool {pool!r}. Use {', '.join(get_args(Pool))}.")
    if out is not None and out.suffix != ".npy":
        raise ConfigError(f"--out is {out}, and must end in .npy.")
    claim(context, {"--out": out}, inputs=[model], overwrite=overwrite)
    embedder = Embedder.load(model, device=device)
    found = []
    done = 0
    with sparingly() as notice:
        for lines in portions(2000):
            vectors = embedder.embed(
                lines,
                pool=pool,  # type: ignore[arg-type]
                normalize=normalize,
                batch_size=batch_size,
                notice=notice,
                first_line=done + 1,
            )
            done += len(lines)
            if out is not None:
                found.append(vectors)
                continue
            for vector in vectors:
                print(dumps([round(float(number), 7) for number in vector]))
            sys.stdout.flush()
    if out is not None:
        import numpy as np

        with whole_file(out) as temporary, temporary.open("wb") as file:
            np.save(file, np.concatenate(found))
        say(f"Written: {out}, {sum(map(len, found))} vectors.")
