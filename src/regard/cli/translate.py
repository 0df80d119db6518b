"""regard translate: translates standard input."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.command import Fields, given_settings
from regard.cli.options import Models
from regard.cli.results import FormatOnly
from regard.cli.stdin import read_stdin, stream_keywords
from regard.cli.tables import format_throughput
from regard.config import Doc, Settings
from regard.decoding.config import SearchConfig
from regard.decoding.constraint_config import ConstraintConfig
from regard.decoding.runtime import Runtime, ThroughputOptions
from regard.decoding.text_config import TextConfig
from regard.errors import ConfigError
from regard.notices import limited_notices
from regard.progress import notify, progress_counter

if TYPE_CHECKING:
    from regard.decoding.ranking_config import ScoreType
    from regard.pipelines.text_search import Alternative, Translation
from regard.pipelines.translator import Translator


@dataclass(frozen=True)
class TranslateOptions(Settings):
    """Options of this command alone."""

    teacher: Annotated[
        Path | None,
        Doc("autoregressive model that reranks the --candidates of a non-autoregressive model"),
    ] = None
    prefix: Annotated[str, Doc("target prefix that every translation starts with")] = ""
    scores: Annotated[bool, Doc("print rank and score before each translation")] = False


def _implied(options: Mapping[str, Any]) -> dict[str, Any]:
    """The search settings that text settings imply."""
    return {"sample": True} if options["mbr_samples"] else {}


def translate(
    context: typer.Context,
    models: Models,
    search: Annotated[
        SearchConfig, Fields(without=("scores", "banned_sequences"), implied=_implied)
    ],
    text: TextConfig,
    constraints: ConstraintConfig,
    runtime: Runtime,
    throughput: ThroughputOptions,
    output: FormatOnly,
    options: TranslateOptions,
) -> None:
    """Translate each line of standard input."""
    keywords: Any = given_settings(context, SearchConfig, TextConfig, ConstraintConfig)
    keywords["scores"] = options.scores or output.format != "text"
    if options.teacher is not None and search.candidates == 1:
        raise ConfigError(
            "--teacher has no effect without candidates to rerank. Use --candidates with a number "
            "above 1, or leave out --teacher."
        )
    translator = _load_translator(
        models, runtime, options.teacher, needs_torch=search.requires_torch
    )
    notify(translator.backend_notice)
    line_count, start = 0, time.perf_counter()
    with (
        progress_counter() as progress,
        limited_notices(notify) as notice,
        output.results(context) as results,
    ):
        rows: Iterator[Any] = translator.translate_rendered(
            read_stdin(),
            _render_text(search.num_hypotheses, options.scores, text.confidence)
            if results.is_text
            else partial(_to_row, score_type=text.score_type),
            prefix=options.prefix,
            **stream_keywords(runtime, throughput, translator.backend.device, notice),
            **keywords,
        )
        for line_count, row in enumerate(rows, 1):
            results.add(row, row)
            progress("lines translated", line_count)
    if line_count:
        notify(format_throughput(line_count, time.perf_counter() - start))


def _load_translator(
    models: Sequence[Path], runtime: Runtime, teacher: Path | None, *, needs_torch: bool
) -> Translator:
    from regard.machine import keep_freed_memory
    from regard.pipelines.translator import Translator

    for path in models:
        if path.is_file():
            raise ConfigError(
                f"{path} is a file, but must be a model folder. Text is read from standard input: "
                f"use < {path}"
            )
    if needs_torch and runtime.backend == "auto":
        runtime = replace(runtime, backend="torch")
    keep_freed_memory()
    return Translator.load(*models, **runtime.loading, teacher=teacher)


def _render_text(
    num_hypotheses: int, scores: bool, confidence: bool
) -> Callable[[Translation], str]:
    return partial(
        _format_lines, num_hypotheses=num_hypotheses, scores=scores, confidence=confidence
    )


def _format_lines(
    translation: Translation, num_hypotheses: int, scores: bool, confidence: bool
) -> str:
    """The translations of a text, one per line, after the columns that were requested."""
    ranked: list[Translation | Alternative] = [translation, *translation.alternatives]
    ranked += [ranked[-1]] * (num_hypotheses - len(ranked))  # also n lines for an empty sentence
    lines = []
    for rank, each in enumerate(ranked, 1):
        columns = [f"{rank}", f"{each.score:.6f}"] if scores else []
        if confidence:
            columns.append("" if each.confidence is None else f"{each.confidence:.4f}")
        lines.append("\t".join([*columns, each.text]))
    return "\n".join(lines)


def _to_row(translation: Translation, score_type: ScoreType) -> dict[str, Any]:
    """A row of the JSON output."""
    alternatives = [
        {"text": other.text, "score": other.score, **_confidence(other)}
        for other in translation.alternatives
    ]
    row = {name: getattr(translation, name) for name in ("source", "text", "score")}
    row |= {"score_type": score_type, "alternatives": alternatives}
    row["warnings"] = translation.warnings
    if translation.words is not None:
        row |= {**_confidence(translation), "review": translation.review}
    return row


def _confidence(translation: Translation | Alternative) -> dict[str, Any]:
    """The fields about confidence, if it was computed."""
    if translation.words is None:
        return {}
    words = [vars(word) for word in translation.words]
    return {"confidence": translation.confidence, "words": words}
