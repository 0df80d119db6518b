"""regard evaluate: computes metrics of models and translations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.command import Fields, OptionSets, given_settings, refuse_options
from regard.cli.options import argument
from regard.cli.results import OutputOptions
from regard.cli.tables import metrics_table, print_table, table
from regard.config import settings_of
from regard.decoding.config import SearchConfig, SearchKeywords
from regard.decoding.runtime import Runtime
from regard.decoding.text_config import InputConfig, TextConfig, TextConfigKeywords
from regard.errors import ConfigError
from regard.evaluation.options import (
    EVALUATION_OPTIONS,
    SEARCH,
    TEXT,
    ContrastiveOptions,
    LabelOptions,
    TranslationsOptions,
    select_evaluation,
)
from regard.evaluation.summary import MetricResult, summarize
from regard.progress import notify

if TYPE_CHECKING:
    from regard.evaluation.analysis import LengthBucket, Sentence
    from regard.evaluation.label_metrics import Scores
    from regard.evaluation.label_report import LabelReport
    from regard.evaluation.report import EvaluatedSystems, Report
    from regard.evaluation.significance import Comparison, Estimate

_SETTINGS = (Runtime, SearchConfig, TextConfig)


def evaluate(
    context: typer.Context,
    test: Annotated[dict[str, Any], OptionSets(lambda: EVALUATION_OPTIONS)],
    search: Annotated[SearchConfig, Fields(only=SEARCH)],
    text: Annotated[TextConfig, Fields(only=TEXT)],
    runtime: Runtime,
    output: OutputOptions,
    models: Annotated[
        list[Path] | None,
        argument(
            "Paths of model or run folders; with several, mean and standard deviation are printed.",
            "MODEL",
        ),
    ] = None,
) -> None:
    """Evaluate translations (sacrebleu), contrastive accuracy, perplexity, or predicted labels."""
    models = models or []
    options = select_evaluation(test)
    outputs = {name: getattr(options, name) for name in options.written}
    output.reserve(context, *models, *options.files, **outputs)
    shared = {setting.name for cls in _SETTINGS for setting in settings_of(cls)}
    ignored = (shared | {"picture"}).difference(options.uses, ["device"])
    refuse_options(context, ignored, f"no effect on {options.title}. Leave it out.")
    if isinstance(options, TranslationsOptions):
        _evaluate_translations(context, options, models, search, runtime, output)
        return
    if not models:
        raise ConfigError("There is nothing to evaluate. Give a model folder.")
    if isinstance(options, LabelOptions):
        if output.picture and len(models) > 1:
            raise ConfigError("--picture plots the confusion matrix of one model. Give one model.")
        reports = options.reports(models, runtime.device, runtime.batch_size, notify)
        _print_label_reports(context, reports, output)
        return
    if isinstance(options, ContrastiveOptions):
        inputs = given_settings(context, InputConfig)
        rows = options.run(models, runtime.device, runtime.batch_size, **inputs)
    else:
        rows = options.run(models, runtime.device, runtime.batch_size)
    with output.results(context, summary=[]) as results:
        for result in rows:
            results.add(result)
    if results.is_text and isinstance(options, ContrastiveOptions):
        _print_accuracies(rows)
    elif results.is_text:
        _print_rows(rows)
    for notice in options.notices(rows):
        notify(notice)


def _print_rows(results: Sequence[Mapping[str, Any]]) -> None:
    """Print a row per model, with a column per scalar field."""
    names = [name for name, value in results[0].items() if not isinstance(value, list | dict)]
    columns = [name.replace("_", " ") for name in names]
    print_table(table("", columns, [[result[name] for name in names] for result in results]))


def _print_accuracies(results: Sequence[Mapping[str, Any]]) -> None:
    """Print the accuracy of each model, and that by category."""
    categories = [*results[0]["categories"]]
    rows = [
        [
            result["name"],
            result["examples"],
            100 * result["accuracy"],
            *(100 * result["categories"][category] for category in categories),
        ]
        for result in results
    ]
    print_table(table("", ["name", "examples", "accuracy, %", *categories], rows))


def _print_label_reports(
    context: typer.Context, reports: Sequence[LabelReport], output: OutputOptions
) -> None:
    """Print metrics of predicted labels, and plot the confusion matrix."""

    def draw(path: Path) -> bool:
        from regard import plots

        return plots.plot_confusion_matrix(path, reports[0].confusion, reports[0].names)

    summary = [*map(asdict, summarize([report.metrics for report in reports]))]
    text = partial(_print_labels, reports)
    rows = [report.row() for report in reports]
    output.print_results(context, rows, draw, text=text, summary=summary)


def _print_labels(reports: Sequence[LabelReport]) -> None:
    """Print overall metrics; for one model also metrics per label; and the worst errors."""
    names, metrics = [report.name for report in reports], [report.metrics for report in reports]
    print_table(metrics_table(names, metrics))
    several = len(reports) > 1
    for report in reports:
        if not several:
            _print_scores("label", report.each)
        if report.spans and not several:
            _print_scores("span", report.spans)
        if report.worst:
            title = "Most confident errors" + (f", {report.name}" if several else "")
            rows = [
                [error.line, error.predicted, error.gold, 100 * error.probability, error.text]
                for error in report.worst
            ]
            print()
            print_table(table(title, ["line", "predicted", "gold", "probability, %", "text"], rows))


def _print_scores(unit: str, scores: Scores) -> None:
    scores_by_name = {**scores.each, **({"all": scores.overall} if unit == "span" else {})}
    rows = [
        [name, 100 * score.precision, 100 * score.recall, 100 * score.f1, score.support]
        for name, score in scores_by_name.items()
    ]
    print()
    print_table(table("", [unit, "precision", "recall", "F1", "count"], rows))


def _evaluate_translations(
    context: typer.Context,
    test: TranslationsOptions,
    models: Sequence[Path],
    search: SearchConfig,
    runtime: Runtime,
    output: OutputOptions,
) -> None:
    """Print the metrics of each system, and write translations to a file."""
    if test.teacher and search.candidates == 1:
        raise ConfigError(
            "--teacher has no effect without candidates to rerank. Use --candidates with a number "
            "above 1, or leave out --teacher."
        )
    _refuse_ignored(context, test, models, output)

    from regard.evaluation.translations import evaluate_systems

    keywords = SearchKeywords(**given_settings(context, SearchConfig))  # type: ignore[typeddict-item]
    text = TextConfigKeywords(**given_settings(context, TextConfig))  # type: ignore[typeddict-item]
    evaluated = evaluate_systems(test, models, keywords, text, runtime, notify)
    try:
        report = evaluated.report()
        output.print_results(
            context,
            report.rows(),
            partial(_draw, evaluated),
            text=partial(_print_report, report),
            summary=[*map(asdict, report.summary)],
        )
    finally:  # also if metrics fail
        evaluated.write_translations()


def _refuse_ignored(
    context: typer.Context,
    test: TranslationsOptions,
    models: Sequence[Path],
    output: OutputOptions,
) -> None:
    """Raise an error for options that have no effect with the others."""
    shows_bleu = test.by_length or output.picture
    if test.metrics and "bleu" not in test.metrics.lower() and not shows_bleu:
        refuse_options(context, ["tokenize"], "no effect without BLEU. Leave it out.")
    if not test.against:
        refuse_options(context, ["resamples"], "no effect without --against. Leave it out.")
    if not models and not (test.against and test.against.is_dir()):
        names = {setting.name for cls in _SETTINGS for setting in settings_of(cls)}
        names |= {"teacher", "ensemble"}
        refuse_options(context, names, "no effect without a model. Leave it out.")


def _print_report(report: Report) -> None:
    """Print metrics, BLEU by length and the worst translations."""
    systems = report.systems
    if report.comparison:
        _print_comparison(report)
    elif report.summary:
        names, metrics = [system.name for system in systems], [s.metrics for s in systems]
        print_table(metrics_table(names, metrics))
        _print_signatures(systems[0].metrics)
    else:
        for result in systems[0].metrics:
            print(f"{result.name:6} {result.value:6.2f}   {result.signature}")
    if systems[0].by_length:
        names = [system.name for system in systems] if len(systems) > 1 else ["BLEU"]
        print()
        print_by_length(names, [system.by_length for system in systems])
    for system in systems:
        if system.worst:
            title = "Worst translations by chrF2" + (f", {system.name}" if len(systems) > 1 else "")
            _print_worst(title, system.worst)


def _print_comparison(report: Report) -> None:
    from regard.evaluation.significance import summarize_comparison

    system, against = (system_result.name for system_result in report.systems)
    rows = [
        [c.name, _interval(c.system), _interval(c.against), f"{c.p_value:.3f}"]
        for c in report.comparison
    ]
    print_table(table("", ["", system, against, "p"], rows))
    print(f"\n{summarize_comparison(report.comparison, system, against)}")
    _print_signatures(report.comparison)


def _draw(evaluated: EvaluatedSystems, picture: Path) -> bool:
    """Plot BLEU by length and sentence-level chrF2 of all systems."""
    from regard import plots
    from regard.evaluation.analysis import bleu_by_length, sentence_scores

    options = evaluated.references, evaluated.metric_config
    texts = {system.name: system.translations for system in evaluated.systems}
    by_length = {name: bleu_by_length(lines, *options) for name, lines in texts.items()}
    return plots.plot_quality(
        picture,
        lengths=[
            f"{bucket.words}\n({bucket.sentences:,})" for bucket in next(iter(by_length.values()))
        ],
        bleu={name: [bucket.bleu for bucket in buckets] for name, buckets in by_length.items()},
        scores={name: sentence_scores(lines, *options) for name, lines in texts.items()},
    )


def _interval(estimate: Estimate) -> str:
    return f"{estimate.value:.2f} ({estimate.mean:.2f} ± {estimate.margin:.2f})"


def _print_signatures(metrics: Sequence[MetricResult | Comparison]) -> None:
    print()
    for metric in metrics:
        print(f"{metric.name:6} {metric.signature}")


def print_by_length(names: Sequence[str], systems: Sequence[Sequence[LengthBucket]]) -> None:
    """Print BLEU by length with a column for each system."""
    rows = [
        [buckets[0].words, buckets[0].sentences, *(bucket.bleu for bucket in buckets)]
        for buckets in zip(*systems, strict=True)
    ]
    print_table(table("BLEU by length", ["words", "sentences", *names], rows))


def _print_worst(title: str, sentences: Sequence[Sentence]) -> None:
    """Print each sentence in several rows: source, translation, references."""
    rows: list[list[str]] = []
    for sentence in sentences:
        texts = [("source", sentence.source)] if sentence.source is not None else []
        texts += [("translation", sentence.translation)]
        texts += [("reference", reference) for reference in sentence.references]
        prefixes = [[f"{sentence.line}", f"{sentence.score:.1f}"], *[["", ""]] * len(texts)]
        rows += [[*prefix, *text] for prefix, text in zip(prefixes, texts, strict=False)]
    print()
    print_table(table(title, ["line", "chrF2", "", ""], rows))
