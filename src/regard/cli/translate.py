"""regard translate: text from standard input, translations to standard output."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.given import given_settings
from regard.cli.options import (
    BatchSize,
    Device,
    Engine,
    Models,
    Precision,
    Teacher,
    numeric,
    setting,
)
from regard.decoding.config import SearchConfig
from regard.errors import ConfigError
from regard.json_text import dumps

if TYPE_CHECKING:
    from regard.decoding.translator import Translation


def translate(
    context: typer.Context,
    models: Models,
    beam_size: Annotated[int, setting(SearchConfig, "beam_size")] = SearchConfig.beam_size,
    top_beams: Annotated[int, setting(SearchConfig, "top_beams")] = SearchConfig.top_beams,
    length_penalty: Annotated[
        float, setting(SearchConfig, "length_penalty")
    ] = SearchConfig.length_penalty,
    patience: Annotated[float, setting(SearchConfig, "patience")] = SearchConfig.patience,
    max_ratio: Annotated[float, setting(SearchConfig, "max_ratio")] = SearchConfig.max_ratio,
    max_extra: Annotated[int, setting(SearchConfig, "max_extra")] = SearchConfig.max_extra,
    min_length: Annotated[
        int | None, setting(SearchConfig, "min_length")
    ] = SearchConfig.min_length,
    at_limit: Annotated[str, setting(SearchConfig, "at_limit")] = SearchConfig.at_limit,
    sample: Annotated[bool, setting(SearchConfig, "sample", "--sample")] = SearchConfig.sample,
    temperature: Annotated[float, setting(SearchConfig, "temperature")] = SearchConfig.temperature,
    top_k: Annotated[int, setting(SearchConfig, "top_k")] = SearchConfig.top_k,
    top_p: Annotated[float, setting(SearchConfig, "top_p")] = SearchConfig.top_p,
    seed: Annotated[int, setting(SearchConfig, "seed")] = SearchConfig.seed,
    fertility: Annotated[str, setting(SearchConfig, "fertility")] = SearchConfig.fertility,
    candidates: Annotated[int, setting(SearchConfig, "candidates")] = SearchConfig.candidates,
    teacher: Teacher = None,
    prefix: Annotated[str, typer.Option(help="What each line's translation must begin with.")] = "",
    scores: Annotated[bool, typer.Option("--scores", help="Rank and score before each.")] = False,
    format: Annotated[str, typer.Option(help="text or jsonl.")] = "text",
    batch_size: BatchSize = None,
    buffer: Annotated[
        int, numeric("Lines read before they are translated; 1: each at once", 1, 1_000_000)
    ] = 2000,
    engine: Engine = "auto",
    precision: Precision = None,
    device: Device = "auto",
) -> None:
    """Translate standard input, line by line."""
    from regard.cli.piped import portions
    from regard.cli.screen import counting, rate, say, sparingly
    from regard.config import build
    from regard.decoding.translator import Translator
    from regard.devices import keep_freed_memory

    if format not in ("text", "jsonl"):
        raise ConfigError(f"There is no format {format!r}. Use text or jsonl.")
    if (sample or at_limit != "scored") and engine == "auto":
        engine = "torch"  # which draws, and counts otherwise
    keywords: Any = given_settings(context, SearchConfig)
    keywords["scores"] = scores or format == "jsonl"
    build(SearchConfig, keywords)
    if teacher is not None and candidates == 1:
        raise ConfigError("A --teacher chooses among --candidates. Give a number of them, too.")
    for path in models:
        if path.is_file():
            raise ConfigError(
                f"{path} is a file, and a model is a folder. Text comes from standard input: "
                f"use < {path}"
            )
    keep_freed_memory()
    translator = Translator.load(
        *models, device=device, engine=engine, precision=precision, teacher=teacher
    )
    say(translator.engine_told)
    done, seconds = 0, 0.0
    with counting() as progress, sparingly() as notice:
        for lines in portions(buffer):
            begun = time.perf_counter()
            for translation in translator.translate(
                lines,
                batch_size=batch_size,
                prefixes=[prefix] * len(lines) if prefix else None,
                notice=notice,
                first_line=done + 1,
                **keywords,
            ):
                _print(translation, top_beams, scores=scores, format=format)
            sys.stdout.flush()
            done, seconds = done + len(lines), seconds + time.perf_counter() - begun
            progress("lines translated", done)
    if done:
        say(rate(done, seconds))


def _print(translation: Translation, top_beams: int, *, scores: bool, format: str) -> None:
    if format == "jsonl":
        row = asdict(translation)
        del row["attention"]
        print(dumps(row))
        return
    ranked = [(translation.text, translation.score)]
    ranked += [(other.text, other.score) for other in translation.alternatives]
    ranked += [ranked[-1]] * (top_beams - len(ranked))  # n lines a sentence, for an empty one too
    for rank, (text, score) in enumerate(ranked, 1):
        print(f"{rank}\t{score:.6f}\t{text}" if scores else text)
