"""regard embed: text from standard input, a vector for each line to standard output."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.cli.command import refuse_options
from regard.cli.options import Model, Overwrite, TorchRuntime
from regard.cli.outputs import claim
from regard.cli.piped import given_or_piped
from regard.cli.results import Printed
from regard.config import Doc, Flag, Settings
from regard.errors import ConfigError
from regard.files import whole_file
from regard.json_text import dumps
from regard.notices import sparingly
from regard.progress import say


@dataclass(frozen=True)
class VectorOptions(Settings):
    """How the vectors of a line's tokens become one."""

    pool: Annotated[Literal["mean", "first", "last"], Doc("of a line's tokens")] = "mean"
    normalize: Annotated[
        bool, Doc("vectors of length 1, or as they are"), Flag("--normalize/--raw")
    ] = True


def embed(
    context: typer.Context,
    model: Model,
    vectors: VectorOptions,
    runtime: TorchRuntime,
    output: Printed,
    out: Annotated[
        Path | None,
        typer.Option(
            help="A .npy file for all vectors; unset: JSON, one a line.", show_default=False
        ),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """A vector for each line of standard input: like lines have like vectors."""
    from regard.decoding.embedder import Embedder

    if out is not None and out.suffix != ".npy":
        raise ConfigError(f"--out is {out}, and must end in .npy.")
    if out is not None:
        refuse_options(context, ["format"], "no effect with --out. Leave one of them out.")
    claim(context, {"--out": out}, inputs=[model], overwrite=overwrite)
    embedder = Embedder.load(model, device=runtime.device)
    found = []
    done = 0
    with sparingly(say) as notice, output.results(context) as results:
        for lines in given_or_piped(None):
            some = embedder.embed(
                lines,
                pool=vectors.pool,
                normalize=vectors.normalize,
                batch_size=runtime.batch_size,
                notice=notice,
                first_line=done + 1,
            )
            done += len(lines)
            if out is not None:
                found.append(some)
                continue
            for line, vector in zip(lines, some, strict=True):
                numbers = [round(float(number), 7) for number in vector]
                results.add({"text": line, "vector": numbers}, dumps(numbers))
            sys.stdout.flush()
    if out is not None:
        import numpy as np

        with whole_file(out) as temporary, temporary.open("wb") as file:
            np.save(file, np.concatenate(found))
        say(f"Written: {out}, {sum(map(len, found))} vectors.")
