"""The part of `regard evaluate` that is about labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from regard.cli.results import OutputOptions
from regard.decoding.config import Runtime
from regard.errors import ConfigError
from regard.evaluation.options import LabelOptions

if TYPE_CHECKING:
    from regard.evaluation.label_report import LabelReport
    from regard.evaluation.labelling import Scores


def evaluate_labels(
    context: typer.Context,
    test: LabelOptions,
    models: Sequence[Path],
    runtime: Runtime,
    output: OutputOptions,
) -> None:
    """Print how good the labels are that each model gives."""
    from regard.progress import say

    if output.picture and len(models) > 1:
        raise ConfigError("--picture draws what one model takes for what. Give one model.")
    reports = test.reports(models, runtime.device, runtime.batch_size, say)
    output.present(context, LabelFindings(reports))


@dataclass(frozen=True)
class LabelFindings:
    """How good labels are."""

    reports: Sequence[LabelReport]

    @property
    def document(self) -> Mapping[str, Any]:
        """Mean and spread of several models."""
        from regard.evaluation.summary import summarize

        summary = summarize([report.metrics for report in self.reports])
        return {"summary": [*map(asdict, summary)]}

    def rows(self) -> list[dict[str, Any]]:
        """Each report."""
        return [asdict(report) for report in self.reports]

    def print_text(self) -> None:
        """The figures of all labels; of one model those of each label; the worst mistakes."""
        from regard.cli.screen import show, systems_table, table

        show(
            systems_table([one.name for one in self.reports], [one.metrics for one in self.reports])
        )
        several = len(self.reports) > 1
        for report in self.reports:
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

    def draw(self, picture: Path) -> bool:
        """Which label is taken for which."""
        from regard.plots import confusion

        return confusion(picture, self.reports[0].confusion, self.reports[0].names)


def _print_scores(what: str, scores: Scores) -> None:
    from regard.cli.screen import show, table

    everything = {**scores.each, **({"all": scores.overall} if what == "span" else {})}
    rows = [
        [name, 100 * one.precision, 100 * one.recall, 100 * one.f1, one.support]
        for name, one in everything.items()
    ]
    print()
    show(table("", [what, "precision", "recall", "F1", "count"], rows))
