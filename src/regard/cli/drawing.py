"""Matrices and curves: as a picture, as text in the terminal, or as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import typer

from regard.cli.results import OutputOptions


def draw_map(
    context: typer.Context, output: OutputOptions, values: Any, *, title: str, axes: tuple[str, str]
) -> None:
    """A matrix, a NumPy array whose axes (rows, columns) have names."""
    from regard import plots
    from regard.cli.screen import written

    rows, columns = axes
    with output.results(context) as results:
        results.add({"title": title, "rows": rows, "columns": columns, "values": values.tolist()})
    if output.picture is not None:
        complete = plots.heat_map(output.picture, values, title=title, rows=rows, columns=columns)
        written(output.picture, complete)
    elif results.is_text:
        print(plots.text_heat_map(values))


def draw_curves(
    context: typer.Context,
    output: OutputOptions,
    lines: Mapping[str, Sequence[float]],
    *,
    title: str,
    axes: tuple[str, str],
) -> None:
    """Lines (x, y) in one picture, or as texts below each other."""
    from regard import plots
    from regard.cli.screen import written

    x, y = axes
    with output.results(context) as results:
        for name, values in lines.items():
            results.add({"title": title, "name": name, "x": x, "y": y, "values": [*values]})
    if output.picture is not None:
        written(output.picture, plots.curves(output.picture, lines, title=title, x=x, y=y))
    elif results.is_text:
        for name, values in lines.items():
            if len(lines) > 1:
                print(name)
            print(plots.text_curve(values))
