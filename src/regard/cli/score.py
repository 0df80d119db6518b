"""regard score: scores given translations."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.command import Fields
from regard.cli.options import Models, TorchRuntime
from regard.cli.results import FormatOnly
from regard.cli.stdin import stream_keywords
from regard.data.line_reader import read_parallel
from regard.decoding.config import SearchConfig
from regard.decoding.runtime import ThroughputOptions
from regard.decoding.text_config import InputConfig
from regard.progress import notify


def score(
    context: typer.Context,
    models: Models,
    search: Annotated[SearchConfig, Fields(only=("length_penalty",))],
    runtime: TorchRuntime,
    throughput: ThroughputOptions,
    output: FormatOnly,
    inputs: InputConfig,
    source: Annotated[Path, typer.Option(help="Source text file.", show_default=False)],
    target: Annotated[Path, typer.Option(help="Target text file.", show_default=False)],
    glossary: Annotated[
        Path | None,
        typer.Option(
            help="Glossary whose terms are annotated in the source, for models trained with "
            "annotated terms.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Print the score of each translation: length-normalized log-probability, as in beam search."""
    from regard.pipelines.translator import Translator

    sources, targets = read_parallel(source, target)
    translator = Translator.load(*models, device=runtime.device, backend="torch")
    stream = stream_keywords(runtime, throughput, translator.models[0].device, notify)
    scores = translator.score_iterable(
        zip(sources, targets, strict=True),
        length_penalty=search.length_penalty,
        glossary=glossary,
        **asdict(inputs),
        **stream,
    )
    with output.results(context) as results:
        for source_text, text, value in zip(sources, targets, scores, strict=True):
            row = {"source": source_text, "text": text, "score": value}
            results.add(row, f"{value:.6f}")
