"""What regard evaluate has found: as JSON, as tables, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from regard.cli.screen import say, show, table, written
from regard.evaluation.analysis import LengthBucket, Sentence, by_length, sentence_scores
from regard.evaluation.metrics import Counting, References, Result
from regard.evaluation.report import Report, System
from regard.evaluation.significance import Comparison, Estimate, verdict
from regard.json_text import dumps


def say_case_is_lost(name: str) -> None:
    """Say that the figures of a system are low because it writes lower case only."""
    say(
        f"{name} writes lower case only, and the references do not: each word with an upper-case "
        "letter counts as wrong. To count without case: --lowercase"
    )


def print_json(report: Report) -> None:
    """The whole report; what was not asked for is an empty list."""
    print(dumps(asdict(report), indent=2))


def print_text(report: Report) -> None:
    """The figures, and below them what else was asked for."""
    systems = report.systems
    if report.comparison:
        _print_comparison(report)
    elif report.summary:
        _print_summary(report)
    else:
        for result in systems[0].results:
            print(f"{result.name:6} {result.value:6.2f}   {result.signature}")
    if systems[0].by_length:
        names = [system.name for system in systems] if len(systems) > 1 else ["BLEU"]
        print()
        print_by_length(names, [system.by_length for system in systems])
    for system in systems:
        if system.worst:
            title = "The worst by chrF2" + (f", {system.name}" if len(systems) > 1 else "")
            _print_worst(title, system.worst)


def _print_summary(report: Report) -> None:
    rows = [[system.name, *(r.value for r in system.results)] for system in report.systems]
    rows.append(["mean", *(metric.mean for metric in report.summary)])
    rows.append(["spread", *(metric.spread for metric in report.summary)])
    show(table("", ["", *(metric.name for metric in report.summary)], rows))
    print()
    _print_signatures(report.systems[0].results)


def _print_comparison(report: Report) -> None:
    system, against = (measured.name for measured in report.systems)
    rows = [
        [c.name, _interval(c.system), _interval(c.against), f"{c.p_value:.3f}"]
        for c in report.comparison
    ]
    show(table("", ["", system, against, "p"], rows))
    print()
    print(verdict(report.comparison, system, against))
    print()
    _print_signatures(report.comparison)


def _interval(estimate: Estimate) -> str:
    return f"{estimate.value:.2f} ({estimate.mean:.2f} ± {estimate.margin:.2f})"


def _print_signatures(figures: Sequence[Result] | Sequence[Comparison]) -> None:
    for figure in figures:
        print(f"{figure.name:6} {figure.signature}")


def print_by_length(names: Sequence[str], systems: Sequence[Sequence[LengthBucket]]) -> None:
    """A column for each system."""
    rows = [
        [words_of(alike[0]), alike[0].sentences, *(bucket.bleu for bucket in alike)]
        for alike in zip(*systems, strict=True)
    ]
    show(table("BLEU by length", ["words", "sentences", *names], rows))


def words_of(bucket: LengthBucket) -> str:
    """How many words the sentences of a group have."""
    if bucket.shortest == bucket.longest:
        return str(bucket.shortest)
    return f"{bucket.shortest}-{bucket.longest}"


def _print_worst(title: str, sentences: Sequence[Sentence]) -> None:
    """Three or more lines a sentence: translation and references stand below each other."""
    rows: list[list[str]] = []
    for sentence in sentences:
        place = [f"{sentence.line}", f"{sentence.score:.1f}"]
        if sentence.source is not None:
            rows.append([*place, "source", sentence.source])
            place = ["", ""]
        rows.append([*place, "translation", sentence.translation])
        rows += [["", "", "reference", reference] for reference in sentence.references]
    print()
    show(table(title, ["line", "chrF2", "", ""], rows))


def draw(path: Path, systems: Sequence[System], references: References, counting: Counting) -> None:
    """The picture of all systems."""
    from regard import plots

    found = {
        system.name: by_length(system.translations, references, counting) for system in systems
    }
    complete = plots.quality(
        path,
        lengths=[
            f"{words_of(bucket)}\n({bucket.sentences:,})" for bucket in found[systems[0].name]
        ],
        bleu={name: [bucket.bleu for bucket in buckets] for name, buckets in found.items()},
        scores={
            system.name: sentence_scores(system.translations, references, counting)
            for system in systems
        },
    )
    written(path, complete)
