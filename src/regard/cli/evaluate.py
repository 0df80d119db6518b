"""regard evaluate: how good models are at their tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.command import Fields, Groups, given_settings, refuse_options
from regard.cli.options import argument
from regard.cli.results import OutputOptions
from regard.cli.screen import show, systems_table, table
from regard.config import settings_of
from regard.decoding.config import Runtime, SearchConfig, SearchKeywords
from regard.errors import ConfigError
from regard.evaluation.options import (
    EVALUATION_OPTIONS,
    SEARCH,
    LabelOptions,
    TranslationsOptions,
    select_evaluation,
)
from regard.evaluation.summary import Result, summarize
from regard.progress import say

if TYPE_CHECKING:
    from regard.evaluation.analysis import LengthBucket, Sentence
    from regard.evaluation.label_report import LabelReport
    from regard.evaluation.labelling import Scores
    from regard.evaluation.report import EvaluatedSystems, Report
    from regard.evaluation.significance import Comparison, Estimate


def evaluate(
    context: typer.Context,
    test: Annotated[dict[str, Any], Groups(lambda: EVALUATION_OPTIONS)],
    search: Annotated[SearchConfig, Fields(only=SEARCH)],
    runtime: Runtime,
    output: OutputOptions,
    models: Annotated[
        list[Path] | None,
        argument("Model or run folders; of several, mean and spread are told.", "MODEL"),
    ] = None,
) -> None:
    """Measure translations (BLEU, chrF, TER by sacrebleu), the perplexity of a text, or labels."""
    models = models or []
    options = select_evaluation(test)
    written = {name: getattr(options, name) for name in options.written}
    output.claim(context, *models, *options.files, **written)
    shared = {setting.name for cls in (Runtime, SearchConfig) for setting in settings_of(cls)}
    ignored = (shared | {"picture"}).difference(options.uses, ["device"])
    refuse_options(context, ignored, f"no effect on {options.title}. Leave it out.")
    if isinstance(options, TranslationsOptions):
        _evaluate_translations(context, options, models, search, runtime, output)
        return
    if not models:
        raise ConfigError("There is nothing to evaluate. Give a model folder.")
    if isinstance(options, LabelOptions):
        if output.picture and len(models) > 1:
            raise ConfigError("--picture draws what one model takes for what. Give one model.")
        reports = options.reports(models, runtime.device, runtime.batch_size, say)
        _present_labels(context, reports, output)
        return
    found = options.run(models, runtime.device, runtime.batch_size)
    with output.results(context, summary=[]) as results:
        for result in found:
            results.add(result)
    if results.is_text:
        _print_table(found)
    for notice in options.notices(found):
        say(notice)


def _print_table(results: Sequence[Mapping[str, Any]]) -> None:
    """A row for each model; a column for each field that is no list or table."""
    names = [name for name, value in results[0].items() if not isinstance(value, list | dict)]
    columns = [name.replace("_", " ") for name in names]
    show(table("", columns, [[result[name] for name in names] for result in results]))


def _present_labels(
    context: typer.Context, reports: Sequence[LabelReport], output: OutputOptions
) -> None:
    """Print how good the labels are, and draw which is taken for which."""

    def draw(path: Path) -> bool:
        from regard import plots

        return plots.confusion(path, reports[0].confusion, reports[0].names)

    summary = [*map(asdict, summarize([report.metrics for report in reports]))]
    text = partial(_print_labels, reports)
    output.present(context, reports, draw, text=text, summary=summary)


def _print_labels(reports: Sequence[LabelReport]) -> None:
    """The figures of all labels; of one model those of each label; the worst mistakes."""
    show(systems_table([one.name for one in reports], [one.metrics for one in reports]))
    several = len(reports) > 1
    for report in reports:
        if not several:
            _print_scores("label", report.each)
        if report.spans and not several:
            _print_scores("span", report.spans)
        if report.worst:
            title = "Wrong, and sure of it" + (f", {report.name}" if several else "")
            found = [
                [one.line, one.found, one.gold, 100 * one.probability, one.text]
                for one in report.worst
            ]
            print()
            show(table(title, ["line", "found", "right", "sure", "text"], found))


def _print_scores(what: str, scores: Scores) -> None:
    everything = {**scores.each, **({"all": scores.overall} if what == "span" else {})}
    rows = [
        [name, 100 * one.precision, 100 * one.recall, 100 * one.f1, one.support]
        for name, one in everything.items()
    ]
    print()
    show(table("", [what, "precision", "recall", "F1", "count"], rows))


def _evaluate_translations(
    context: typer.Context,
    test: TranslationsOptions,
    models: Sequence[Path],
    search: SearchConfig,
    runtime: Runtime,
    output: OutputOptions,
) -> None:
    """Print the figures of each system, and keep translations."""
    if test.teacher and search.candidates == 1:
        raise ConfigError("A --teacher chooses among --candidates. Give a number of them, too.")
    _refuse_ignored(context, test, models, output)

    from regard.evaluation.translations import evaluated_systems

    keywords = SearchKeywords(**given_settings(context, SearchConfig))  # type: ignore[typeddict-item]
    tested = evaluated_systems(test, models, keywords, runtime, say)
    try:
        report = tested.report()
        output.present(
            context,
            report.rows(),
            partial(_draw, tested),
            text=partial(_print_report, report),
            summary=[*map(asdict, report.summary)],
        )
    finally:  # the figures and the file do not depend on each other
        tested.write_translations()


def _refuse_ignored(
    context: typer.Context,
    test: TranslationsOptions,
    models: Sequence[Path],
    output: OutputOptions,
) -> None:
    """Refuse options that have no effect beside the others."""
    shows_bleu = test.by_length or output.picture
    if test.metrics and "bleu" not in test.metrics.lower() and not shows_bleu:
        refuse_options(context, ["tokenize"], "no effect without BLEU. Leave it out.")
    if not test.against:
        refuse_options(context, ["resamples"], "no effect without --against.")
    if not models and not (test.against and test.against.is_dir()):
        names = {one.name for cls in (Runtime, SearchConfig) for one in settings_of(cls)}
        names |= {"teacher", "ensemble"}
        refuse_options(context, names, "no model translates here. Leave it out.")


def _print_report(report: Report) -> None:
    """The figures, and below them what else was asked for."""
    systems = report.systems
    if report.comparison:
        _print_comparison(report)
    elif report.summary:
        show(systems_table([one.name for one in systems], [one.metrics for one in systems]))
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
            title = "The worst by chrF2" + (f", {system.name}" if len(systems) > 1 else "")
            _print_worst(title, system.worst)


def _print_comparison(report: Report) -> None:
    from regard.evaluation.significance import verdict

    system, against = (measured.name for measured in report.systems)
    rows = [
        [c.name, _interval(c.system), _interval(c.against), f"{c.p_value:.3f}"]
        for c in report.comparison
    ]
    show(table("", ["", system, against, "p"], rows))
    print(f"\n{verdict(report.comparison, system, against)}")
    _print_signatures(report.comparison)


def _draw(tested: EvaluatedSystems, picture: Path) -> bool:
    """BLEU by length and the scores of sentences, of all systems."""
    from regard import plots
    from regard.evaluation.analysis import by_length, sentence_scores

    how = tested.references, tested.counting
    texts = {system.name: system.translations for system in tested.systems}
    found = {name: by_length(lines, *how) for name, lines in texts.items()}
    return plots.quality(
        picture,
        lengths=[f"{one.words}\n({one.sentences:,})" for one in next(iter(found.values()))],
        bleu={name: [bucket.bleu for bucket in buckets] for name, buckets in found.items()},
        scores={name: sentence_scores(lines, *how) for name, lines in texts.items()},
    )


def _interval(estimate: Estimate) -> str:
    return f"{estimate.value:.2f} ({estimate.mean:.2f} ± {estimate.margin:.2f})"


def _print_signatures(metrics: Sequence[Result | Comparison]) -> None:
    print()
    for metric in metrics:
        print(f"{metric.name:6} {metric.signature}")


def print_by_length(names: Sequence[str], systems: Sequence[Sequence[LengthBucket]]) -> None:
    """A column for each system."""
    rows = [
        [alike[0].words, alike[0].sentences, *(bucket.bleu for bucket in alike)]
        for alike in zip(*systems, strict=True)
    ]
    show(table("BLEU by length", ["words", "sentences", *names], rows))


def _print_worst(title: str, sentences: Sequence[Sentence]) -> None:
    """Three or more lines a sentence: translation and references stand below each other."""
    rows: list[list[str]] = []
    for sentence in sentences:
        texts = [("source", sentence.source)] if sentence.source is not None else []
        texts += [("translation", sentence.translation)]
        texts += [("reference", reference) for reference in sentence.references]
        places = [[f"{sentence.line}", f"{sentence.score:.1f}"], *[["", ""]] * len(texts)]
        rows += [[*place, *text] for place, text in zip(places, texts, strict=False)]
    print()
    show(table(title, ["line", "chrF2", "", ""], rows))
