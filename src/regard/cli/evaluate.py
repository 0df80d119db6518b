"""regard evaluate: how good models are at their tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.command import Fields, Groups, Values
from regard.cli.evaluate_labels import evaluate_labels
from regard.cli.evaluate_translations import evaluate_translations
from regard.cli.given import refuse_options
from regard.cli.options import argument
from regard.cli.results import OutputOptions
from regard.config import settings_of
from regard.decoding.config import Runtime, SearchConfig
from regard.errors import ConfigError
from regard.evaluation.options import (
    EVALUATION_OPTIONS,
    SEARCH,
    LabelOptions,
    TranslationsOptions,
    select_evaluation,
)


def evaluate(
    context: typer.Context,
    test: Annotated[Values, Groups(lambda: EVALUATION_OPTIONS)],
    search: Annotated[SearchConfig, Fields(only=SEARCH)],
    runtime: Runtime,
    output: OutputOptions,
    models: Annotated[
        list[Path] | None,
        argument("Model or run folders; of several, mean and spread are told.", "MODEL"),
    ] = None,
) -> None:
    """Measure translations (BLEU, chrF, TER by sacrebleu), the perplexity of a text, or labels."""
    from regard.progress import say

    models = models or []
    options = select_evaluation(test.given())
    written = {name: getattr(options, name) for name in options.written}
    output.claim(context, *models, *options.files, **written)
    shared = {setting.name for cls in (Runtime, SearchConfig) for setting in settings_of(cls)}
    ignored = (shared | {"picture"}).difference(options.uses, ["device"])
    refuse_options(context, ignored, f"no effect on {options.title}. Leave it out.")
    if isinstance(options, TranslationsOptions):
        evaluate_translations(context, options, models, search, runtime, output)
        return
    if not models:
        raise ConfigError("There is nothing to evaluate. Give a model folder.")
    if isinstance(options, LabelOptions):
        evaluate_labels(context, options, models, runtime, output)
        return
    found = options.run(models, runtime.device, runtime.batch_size)
    with output.results(context) as results:
        results.document = {"summary": []}
        for result in found:
            results.add(result)
    if output.format == "text":
        _print_table(found)
    for notice in options.notices(found):
        say(notice)


def _print_table(results: Sequence[Mapping[str, Any]]) -> None:
    """A row for each model; a column for each field that is no list or table."""
    from regard.cli.screen import show, table

    names = [name for name, value in results[0].items() if not isinstance(value, list | dict)]
    columns = [name.replace("_", " ") for name in names]
    show(table("", columns, [[result[name] for name in names] for result in results]))
