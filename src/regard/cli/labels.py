"""The part of `regard evaluate` that is about labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from regard.data.label_doctor import LabelFormat
from regard.errors import ConfigError
from regard.json_text import dumps

if TYPE_CHECKING:
    from regard.data.examples import Example
    from regard.evaluation.label_report import LabelReport
    from regard.evaluation.labelling import Scores


def evaluate_labels(
    models: Sequence[Path],
    path: Path,
    format: LabelFormat,
    *,
    worst: int,
    picture: Path | None,
    as_json: bool,
    batch_size: int | None,
    device: str,
) -> None:
    """Print how good the labels are that each model gives."""
    from regard.cli.screen import written
    from regard.data.examples import read_examples
    from regard.evaluation.label_report import given_labels, label_report
    from regard.models.folder import ModelFolder
    from regard.plots import confusion

    if not models:
        raise ConfigError("There is nothing to evaluate. Give a model folder.")
    if picture and len(models) > 1:
        raise ConfigError("--picture draws what one model takes for what. Give one model.")
    # Models that were trained on one column have the file read once.
    read = cache(partial(read_examples, path, format.content, format.column, format.header))
    reports = []
    for model in models:
        folder = ModelFolder.read(model)
        examples = read(folder.seen.column)
        _mention_strange_labels(model, folder.vocabulary.labels, examples)
        given = given_labels(model, format.content, examples, device=device, batch_size=batch_size)
        reports.append(label_report(str(model), given, examples, worst_count=worst))
    if as_json:
        print(dumps([asdict(one) for one in reports], indent=2))
    else:
        _print_text(reports)
    if picture:
        written(picture, confusion(picture, reports[0].confusion, reports[0].names))


def _mention_strange_labels(model: Path, known: Sequence[str], examples: Sequence[Example]) -> None:
    """Those that a model cannot give count as mistakes; if it can give none, nothing is right."""
    from regard.cli.screen import say

    labels = {label for example in examples for label in example.labels}
    strange = sorted(labels - {*known})
    if not known or not strange:  # a model that gives none is refused later
        return
    some = ", ".join(strange[:3]) + (" ..." if len(strange) > 3 else "")
    if len(strange) == len(labels):
        raise ConfigError(
            f"{model} knows none of these labels ({some}); it gives {', '.join(known[:3])} ... "
            "Check which column they are in (--column), and the file."
        )
    say(f"{model} does not know {len(strange)} of {len(labels)} labels: {some}. They count.")


def _print_text(reports: Sequence[LabelReport]) -> None:
    from regard.cli.screen import show, table

    names = ["accuracy", "macro F1", *(["span F1"] if reports[0].spans else [])]
    rows: list[list[str | float]] = [[one.name, *_figures(one)] for one in reports]
    if len(reports) > 1:
        columns = [*zip(*map(_figures, reports), strict=True)]
        rows.append(["mean", *map(fmean, columns)])
        rows.append(["spread", *map(stdev, columns)])
    show(table("", ["", *names], rows))
    if len(reports) == 1:
        (report,) = reports
        print()
        _print_scores("label", report.each)
        if report.spans:
            print()
            _print_scores("span", report.spans)
    for report in reports:
        if report.worst:
            title = "Wrong, and sure of it" + (f", {report.name}" if len(reports) > 1 else "")
            found = [
                [one.line, one.found, one.gold, 100 * one.probability, one.text]
                for one in report.worst
            ]
            print()
            show(table(title, ["line", "found", "right", "sure", "text"], found))


def _figures(report: LabelReport) -> list[float]:
    """Of a hundred."""
    spans = [report.spans.overall.f1] if report.spans else []
    return [100 * value for value in (report.accuracy, report.macro_f1, *spans)]


def _print_scores(what: str, scores: Scores) -> None:
    from regard.cli.screen import show, table

    everything = {**scores.each, **({"all": scores.overall} if what == "span" else {})}
    rows = [
        [name, 100 * one.precision, 100 * one.recall, 100 * one.f1, one.support]
        for name, one in everything.items()
    ]
    show(table("", [what, "precision", "recall", "F1", "count"], rows))
