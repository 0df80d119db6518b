"""Time and memory along one axis at a time: isolated measurements, a table, a picture."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pages import save_svg

Point = dict[str, Any]  # milliseconds and megabytes, with the value of each axis
Series = Mapping[str, Sequence[Point]]  # by axis


def run_isolated(program: str, arguments: Sequence[str]) -> Point:
    """The point that a program prints, measured in a separate process."""
    process = subprocess.run(
        [sys.executable, program, *arguments], check=True, capture_output=True, text=True
    )
    point: Point = json.loads(process.stdout.splitlines()[-1])
    print(point, flush=True)
    return point


def table(series: Series) -> list[str]:
    """A line for each point, with the growth per doubling of the axis."""
    lines = ["| | ms | MB | ms per doubling | MB per doubling |", "|---|---|---|---|---|"]
    for axis, points in series.items():
        for before, now in zip([None, *points], points, strict=False):
            lines.append(_line(axis, before, now))
    return lines


def _line(axis: str, before: Point | None, now: Point) -> str:
    growths = ["", ""]
    if before:
        doublings = math.log2(now[axis] / before[axis])
        growths = [
            f"x {(now[what] / before[what]) ** (1 / doublings):.2f}"
            for what in ("milliseconds", "megabytes")
        ]
    cells = [f"{now['milliseconds']:,.1f}", f"{now['megabytes']:,.0f}", *growths]
    return f"| {axis} {now[axis]:,} | {' | '.join(cells)} |"


def draw(path: Path, series: Series, *, title: str, labels: Mapping[str, str]) -> None:
    """Draw time and memory, with a panel for each axis."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4 * len(series), 3.2), layout="constrained")
    panels = figure.subplots(1, len(series), squeeze=False)[0]
    for axes, (axis, points) in zip(panels, series.items(), strict=True):
        for what, label in (("milliseconds", "ms"), ("megabytes", "MB")):
            axes.loglog([p[axis] for p in points], [p[what] for p in points], "o-", label=label)
        axes.set_xlabel(labels[axis])
        axes.set_xticks([p[axis] for p in points], [f"{p[axis]:,}" for p in points], fontsize=7)
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.legend()
    figure.suptitle(title, fontsize=10)
    save_svg(figure, path)
