"""regard embed: computes an embedding of each line of standard input."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.cli.command import refuse_options
from regard.cli.options import Model, Overwrite, TorchRuntime
from regard.cli.outputs import reserve_outputs
from regard.cli.results import FormatOnly
from regard.cli.stdin import collected, read_stdin, stream_keywords
from regard.config import Doc, Flag, Settings
from regard.decoding.runtime import ThroughputOptions
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
    vector_options: VectorOptions,
    runtime: TorchRuntime,
    throughput: ThroughputOptions,
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
    from regard.pipelines.embedder import Embedder

    if out is not None and out.suffix != ".npy":
        raise ConfigError(f"--out is {out}, but must end in .npy.")
    if out is not None:
        refuse_options(context, ["format"], "no effect with --out. Leave one of them out.")
    reserve_outputs(context, {"--out": out}, inputs=[model], overwrite=overwrite)
    embedder = Embedder.load(model, device=runtime.device)
    lines: deque[str] = deque()  # whose embeddings are not printed yet
    vectors = []
    with limited_notices(notify) as notice, output.results(context) as results:
        embeddings = embedder.embed_iterable(
            collected(read_stdin(), lines),
            pool=vector_options.pooling,
            normalize=vector_options.normalize,
            **stream_keywords(runtime, throughput, embedder.model.device, notice),
        )
        for vector in embeddings:
            if out is not None:
                vectors.append(vector)
                continue
            numbers = [round(float(number), 7) for number in vector]
            results.add({"text": lines.popleft(), "vector": numbers}, dumps(numbers))
    if out is not None:
        import numpy as np

        with atomic_file(out) as temporary, temporary.open("wb") as file:
            np.save(file, np.stack(vectors) if vectors else embedder.embed([]))
        notify(f"Wrote {len(vectors):,} embeddings to {out}.")
