"""Tables for standard output, and notices about plots and throughput."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from regard.data.filters import Report
from regard.evaluation.summary import MetricResult, summarize
from regard.progress import notify

_NO_WRAP = 100_000  # columns


def format_throughput(number: int, seconds: float, unit: str = "line") -> str:
    """The number of lines or other units, the time that they took, and the units per second."""
    count = f"1 {unit}" if number == 1 else f"{number:,} {unit}s"
    rate = number / max(seconds, 1e-9)
    throughput = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
    return f"{count} in {seconds:.2f} s ({throughput} {unit}s/s)."


def report_plot(path: Path, has_all_glyphs: bool) -> None:
    """Print where a plot was written, and a notice if the installed fonts lack characters."""
    notify(f"Wrote {path}")
    if not has_all_glyphs:
        notify("The installed fonts lack some characters. Install one such as Noto Sans CJK.")


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """A table without borders; numbers are right-aligned, floats have two decimals."""
    result = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    for number, name in enumerate(columns):
        is_number = bool(rows) and isinstance(rows[0][number], int | float)
        result.add_column(name, justify="right" if is_number else "left", no_wrap=number == 0)
    for row in rows:
        result.add_row(*map(_cell, row))
    return result


def report_table(report: Report, noun: str) -> Table:
    """What was read, cleaned and filtered out of a corpus."""
    rows = [(f"{noun} read", report.pairs, "")]
    rows += [(issue, count, f"line {first}") for issue, (count, first) in report.issues.items()]
    rows.append((f"{noun} kept", report.kept, ""))
    return table("", ["", "count", "first at"], rows)


def metrics_table(names: Sequence[str], metrics: Sequence[Sequence[MetricResult]]) -> Table:
    """A row of metrics for each system; for several systems also mean and standard deviation."""
    rows = [
        [name, *(metric.value for metric in values)]
        for name, values in zip(names, metrics, strict=True)
    ]
    if summary := summarize(metrics):
        rows.append(["mean", *(metric.mean for metric in summary)])
        rows.append(["std", *(metric.spread for metric in summary)])
    return table("", ["", *(metric.name for metric in metrics[0])], rows)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def print_table(table: Table) -> None:
    """Print a table, wrapped to the width of a terminal, or unwrapped to a file or pipe."""
    output = Console(highlight=False, markup=False, emoji=False)
    if output.is_terminal:
        output.print(table)
        return
    output.width = _NO_WRAP
    with output.capture() as text:
        output.print(table)
    print("\n".join(line.rstrip(" ") for line in text.get().removesuffix("\n").split("\n")))
