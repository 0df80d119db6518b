"""Tables on standard output, and notices about pictures and speed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from regard.evaluation.summary import Result, summarize
from regard.progress import say

_ENDLESS = 100_000  # columns: no line is folded


def rate(lines: int, seconds: float) -> str:
    """How long some lines took."""
    counted = "1 line" if lines == 1 else f"{lines:,} lines"
    each = lines / max(seconds, 1e-9)
    speed = f"{each:,.0f}" if each >= 10 else f"{each:.2g}"
    return f"{counted} in {seconds:.2f} s, {speed} a second."


def written(picture: Path, complete: bool) -> None:
    """Where a picture is, and whether the fonts had all its characters."""
    say(f"Written: {picture}")
    if not complete:
        say("Some characters are not in the fonts here; install one, such as Noto Sans CJK.")


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """A plain table; numbers stand to the right, those with a fraction cut to two digits."""
    made = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    for number, name in enumerate(columns):
        numeric = bool(rows) and isinstance(rows[0][number], int | float)
        made.add_column(name, justify="right" if numeric else "left", no_wrap=number == 0)
    for row in rows:
        made.add_row(*map(_cell, row))
    return made


def systems_table(names: Sequence[str], metrics: Sequence[Sequence[Result]]) -> Table:
    """The figures of each system; of several, mean and spread, too."""
    rows = [[name, *(one.value for one in own)] for name, own in zip(names, metrics, strict=True)]
    if summary := summarize(metrics):
        rows.append(["mean", *(one.mean for one in summary)])
        rows.append(["spread", *(one.spread for one in summary)])
    return table("", ["", *(one.name for one in metrics[0])], rows)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def show(made: Table) -> None:
    """A table as output: folded to the width of a terminal, whole in a file or a pipe."""
    page = Console(highlight=False, markup=False, emoji=False)
    if page.is_terminal:
        page.print(made)
        return
    page.width = _ENDLESS
    with page.capture() as text:
        page.print(made)
    print("\n".join(line.rstrip(" ") for line in text.get().removesuffix("\n").split("\n")))
