"""regard translate: translates standard input."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.command import Fields, given_settings
from regard.cli.options import Models, number_option
from regard.cli.results import FormatOnly, ResultWriter
from regard.cli.stdin import read_texts
from regard.cli.tables import format_throughput
from regard.config import Flag
from regard.decoding.config import Runtime, SearchConfig
from regard.errors import ConfigError
from regard.notices import limited_notices
from regard.progress import notify, progress_counter

if TYPE_CHECKING:
    from regard.decoding.translator import Translation, Translator


def translate(
    context: typer.Context,
    models: Models,
    search: Annotated[SearchConfig, Fields(without=("scores",))],
    runtime: Runtime,
    output: FormatOnly,
    teacher: Annotated[
        Path | None,
        typer.Option(
            help="Autoregressive model that reranks the --candidates of a non-autoregressive model."
        ),
    ] = None,
    prefix: Annotated[
        str, typer.Option(help="Target prefix that every translation starts with.")
    ] = "",
    scores: Annotated[
        bool, typer.Option("--scores", help="Print rank and score before each translation.")
    ] = False,
    buffer_size: Annotated[
        int,
        number_option(
            "Number of lines to read before translating; 1: translate each immediately",
            1,
            1_000_000,
        ),
        Flag(formerly=("--buffer",)),
    ] = 2000,
) -> None:
    """Translate each line of standard input."""
    keywords: Any = given_settings(context, SearchConfig)
    keywords["scores"] = scores or output.format != "text"
    if teacher is not None and search.candidates == 1:
        raise ConfigError(
            "--teacher has no effect without candidates to rerank. Use --candidates with a number "
            "above 1, or leave out --teacher."
        )
    translator = _load_translator(models, search, runtime, teacher)
    notify(translator.backend_notice)
    line_count, seconds = 0, 0.0
    with (
        progress_counter() as progress,
        limited_notices(notify) as notice,
        output.results(context) as results,
    ):
        for lines in read_texts(None, buffer_size):
            start = time.perf_counter()
            for translation in translator.translate(
                lines,
                batch_size=runtime.batch_size,
                prefixes=[prefix] * len(lines) if prefix else None,
                notice=notice,
                first_line=line_count + 1,
                **keywords,
            ):
                _print(translation, search.num_hypotheses, results, scores=scores)
            sys.stdout.flush()
            line_count, seconds = line_count + len(lines), seconds + time.perf_counter() - start
            progress("lines translated", line_count)
    if line_count:
        notify(format_throughput(line_count, seconds))


def _load_translator(
    models: Sequence[Path], search: SearchConfig, runtime: Runtime, teacher: Path | None
) -> Translator:
    from regard.decoding.translator import Translator
    from regard.devices import keep_freed_memory

    for path in models:
        if path.is_file():
            raise ConfigError(
                f"{path} is a file, but must be a model folder. Text is read from standard input: "
                f"use < {path}"
            )
    if (search.sample or search.at_limit != "scored") and runtime.backend == "auto":
        runtime = replace(runtime, backend="torch")  # sampling and other length limits need torch
    keep_freed_memory()
    return Translator.load(*models, **runtime.loading, teacher=teacher)


def _print(
    translation: Translation, num_hypotheses: int, results: ResultWriter, *, scores: bool
) -> None:
    ranked = [(translation.text, translation.score)]
    ranked += [(other.text, other.score) for other in translation.alternatives]
    ranked += [ranked[-1]] * (num_hypotheses - len(ranked))  # also n lines for an empty sentence
    lines = [
        f"{rank}\t{score:.6f}\t{text}" if scores else text
        for rank, (text, score) in enumerate(ranked, 1)
    ]
    row = {name: getattr(translation, name) for name in ("source", "text", "score")}
    others = [vars(other) for other in translation.alternatives]
    results.add({**row, "alternatives": others}, "\n".join(lines))
