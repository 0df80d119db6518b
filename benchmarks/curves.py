"""Time and memory against one thing at a time: points measured alone, a table, a picture."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pages import save

Point = dict[str, Any]  # with milliseconds and megabytes, and what they are of
Series = Mapping[str, Sequence[Point]]  # by the key that grows


def alone(program: str, words: Sequence[str]) -> Point:
    """A point that a program prints, in a process whose memory is nobody else's."""
    done = subprocess.run(
        [sys.executable, program, *words], check=True, capture_output=True, text=True
    )
    found: Point = json.loads(done.stdout.splitlines()[-1])
    print(found, flush=True)
    return found


def table(series: Series) -> list[str]:
    """A line for each point, with how much more it is for each doubling."""
    lines = ["| | ms | MB | ms a doubling | MB a doubling |", "|---|---|---|---|---|"]
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
    figures = [f"{now['milliseconds']:,.1f}", f"{now['megabytes']:,.0f}", *growths]
    return f"| {axis} {now[axis]:,} | {' | '.join(figures)} |"


def draw(path: Path, series: Series, *, title: str, labels: Mapping[str, str]) -> None:
    """A panel for each series, both figures in it."""
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
    save(figure, path)
