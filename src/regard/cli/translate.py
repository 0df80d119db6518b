"""regard translate: text from standard input, translations to standard output."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.command import Fields, given_settings
from regard.cli.options import Models, numeric
from regard.cli.piped import given_or_piped
from regard.cli.results import Printed, Results
from regard.cli.screen import rate
from regard.decoding.config import Runtime, SearchConfig
from regard.errors import ConfigError
from regard.notices import sparingly
from regard.progress import counting, say

if TYPE_CHECKING:
    from regard.decoding.translator import Translation, Translator


def translate(
    context: typer.Context,
    models: Models,
    search: Annotated[SearchConfig, Fields(without=("scores",))],
    runtime: Runtime,
    output: Printed,
    teacher: Annotated[
        Path | None,
        typer.Option(help="A model that writes word by word, to choose among --candidates."),
    ] = None,
    prefix: Annotated[str, typer.Option(help="What each line's translation must begin with.")] = "",
    scores: Annotated[bool, typer.Option("--scores", help="Rank and score before each.")] = False,
    buffer: Annotated[
        int, numeric("Lines read before they are translated; 1: each at once", 1, 1_000_000)
    ] = 2000,
) -> None:
    """Translate standard input, line by line."""
    keywords: Any = given_settings(context, SearchConfig)
    keywords["scores"] = scores or output.format != "text"
    if teacher is not None and search.candidates == 1:
        raise ConfigError("A --teacher chooses among --candidates. Give a number of them, too.")
    translator = _loaded(models, search, runtime, teacher)
    say(translator.engine_told)
    done, seconds = 0, 0.0
    with counting() as progress, sparingly(say) as notice, output.results(context) as results:
        for lines in given_or_piped(None, buffer):
            begun = time.perf_counter()
            for translation in translator.translate(
                lines,
                batch_size=runtime.batch_size,
                prefixes=[prefix] * len(lines) if prefix else None,
                notice=notice,
                first_line=done + 1,
                **keywords,
            ):
                _print(translation, search.top_beams, results, scores=scores)
            sys.stdout.flush()
            done, seconds = done + len(lines), seconds + time.perf_counter() - begun
            progress("lines translated", done)
    if done:
        say(rate(done, seconds))


def _loaded(
    models: Sequence[Path], search: SearchConfig, runtime: Runtime, teacher: Path | None
) -> Translator:
    from regard.decoding.translator import Translator
    from regard.devices import keep_freed_memory

    for path in models:
        if path.is_file():
            raise ConfigError(
                f"{path} is a file, and a model is a folder. Text comes from standard input: "
                f"use < {path}"
            )
    if (search.sample or search.at_limit != "scored") and runtime.backend == "auto":
        runtime = replace(runtime, backend="torch")  # which draws, and counts otherwise
    keep_freed_memory()
    return Translator.load(*models, **runtime.loading, teacher=teacher)


def _print(translation: Translation, top_beams: int, results: Results, *, scores: bool) -> None:
    ranked = [(translation.text, translation.score)]
    ranked += [(other.text, other.score) for other in translation.alternatives]
    ranked += [ranked[-1]] * (top_beams - len(ranked))  # n lines a sentence, for an empty one too
    lines = [
        f"{rank}\t{score:.6f}\t{text}" if scores else text
        for rank, (text, score) in enumerate(ranked, 1)
    ]
    row = {name: getattr(translation, name) for name in ("source", "text", "score")}
    others = [vars(other) for other in translation.alternatives]
    results.add({**row, "alternatives": others}, "\n".join(lines))
