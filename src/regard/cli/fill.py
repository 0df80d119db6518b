"""regard fill: predicts masked tokens."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import Model, TorchRuntime, argument, number_option
from regard.cli.results import FormatOnly, ResultWriter
from regard.cli.stdin import read_texts, stream_keywords
from regard.cli.tables import print_table, table
from regard.decoding.runtime import ThroughputOptions
from regard.errors import DataError
from regard.notices import limited_notices
from regard.progress import notify

if TYPE_CHECKING:
    from regard.pipelines.mask_codec import FilledText


def fill(
    context: typer.Context,
    model: Model,
    runtime: TorchRuntime,
    throughput: ThroughputOptions,
    output: FormatOnly,
    texts: Annotated[
        list[str] | None,
        argument("Texts with [MASK] tokens; default: the lines of standard input.", "TEXT"),
    ] = None,
    top_k: Annotated[int, number_option("Number of predictions per mask", 1, 10_000)] = 5,
) -> None:
    """Print the most probable tokens for each [MASK] of a text, by a masked language model."""
    from regard.pipelines.mask_filler import MaskFiller

    filler = MaskFiller.load(model, device=runtime.device)
    line_count, filled_count = 0, 0
    with limited_notices(notify) as notice, output.results(context) as results:
        stream = stream_keywords(runtime, throughput, filler.model.device, notice)
        filled_texts = filler.fill_iterable(read_texts(texts), top_k=top_k, **stream)
        for filled in filled_texts:
            _print(filled, results)
            line_count += 1
            filled_count += bool(filled.blanks)
    if line_count and not filled_count:
        raise DataError("No line contains [MASK]. Write [MASK] for each token to predict.")


def _print(filled: FilledText, results: ResultWriter) -> None:
    results.add({**asdict(filled), "best": filled.best}, None if filled.blanks else filled.text)
    for number, predictions in enumerate(filled.blanks if results.is_text else (), 1):
        suffix = f", mask {number}" if len(filled.blanks) > 1 else ""
        rows = [
            [prediction.word.replace("\n", "\\n"), f"{100 * prediction.probability:.1f} %"]
            for prediction in predictions
        ]
        print(f"{filled.text}{suffix}")
        print_table(table("", ["token", "probability"], rows))
