"""Matrices and curves, as a picture or as text in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def draw_map(out: Path | None, values: ArrayLike, *, title: str, rows: str, columns: str) -> None:
    """A matrix, as a picture or as text."""
    from regard import plots
    from regard.cli.screen import written

    if out is None:
        print(plots.text_heat_map(values))
    else:
        written(out, plots.heat_map(out, values, title=title, rows=rows, columns=columns))


def draw_curves(
    out: Path | None, lines: Mapping[str, Sequence[float]], *, title: str, x: str, y: str
) -> None:
    """Lines, as one picture or as texts below each other."""
    from regard import plots
    from regard.cli.screen import written

    if out is not None:
        written(out, plots.curves(out, lines, title=title, x=x, y=y))
        return
    for name, values in lines.items():
        if len(lines) > 1:
            print(name)
        print(plots.text_curve(values))
