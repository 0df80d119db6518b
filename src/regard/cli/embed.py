"""regard embed: computes an embedding of each line of standard input."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.cli.command import refuse_options
from regard.cli.options import Model, Overwrite, TorchRuntime
from regard.cli.outputs import reserve_outputs
from regard.cli.results import FormatOnly
from regard.cli.stdin import read_texts
from regard.config import Doc, Flag, Settings
from regard.errors import ConfigError
from regard.files import atomic_file
from regard.json_text import dumps
from regard.notices import limited_notices
from regard.progress import notify


@dataclass(frozen=True)
class VectorOptions(Settings):
    """Pooling of token vectors."""

    pooling: Annotated[
        Literal["mean", "first", "last"],
        Doc("how the token vectors of a line are pooled"),
        Flag(formerly=("--pool",)),
    ] = "mean"
    normalize: Annotated[
        bool,
        Doc("scale embeddings to unit length"),
        Flag("--normalize/--no-normalize", ("--raw=false",)),
    ] = True


def embed(
    context: typer.Context,
    model: Model,
    vectors: VectorOptions,
    runtime: TorchRuntime,
    output: FormatOnly,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write all embeddings to this .npy file; default: one JSON list per line.",
            show_default=False,
        ),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Compute an embedding of each line of standard input."""
    from regard.decoding.embedder import Embedder

    if out is not None and out.suffix != ".npy":
        raise ConfigError(f"--out is {out}, but must end in .npy.")
    if out is not None:
        refuse_options(context, ["format"], "no effect with --out. Leave one of them out.")
    reserve_outputs(context, {"--out": out}, inputs=[model], overwrite=overwrite)
    embedder = Embedder.load(model, device=runtime.device)
    chunks = []
    line_count = 0
    with limited_notices(notify) as notice, output.results(context) as results:
        for lines in read_texts(None):
            embeddings = embedder.embed(
                lines,
                pool=vectors.pooling,
                normalize=vectors.normalize,
                batch_size=runtime.batch_size,
                notice=notice,
                first_line=line_count + 1,
            )
            line_count += len(lines)
            if out is not None:
                chunks.append(embeddings)
                continue
            for line, vector in zip(lines, embeddings, strict=True):
                numbers = [round(float(number), 7) for number in vector]
                results.add({"text": line, "vector": numbers}, dumps(numbers))
            sys.stdout.flush()
    if out is not None:
        import numpy as np

        with atomic_file(out) as temporary, temporary.open("wb") as file:
            np.save(file, np.concatenate(chunks))
        notify(f"Wrote {line_count:,} embeddings to {out}.")
