"""Plots of arrays, as PNG files or as text for the terminal.

Functions that write a PNG return whether the installed fonts have all characters of it.
"""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

from regard.data.calibration import CurvePair
from regard.files import atomic_file

_SHADES = " ░▒▓█"
# Fallbacks in this order, for characters that the first font lacks.
_FONTS = ["DejaVu Sans", "Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC"]
_FONTS += ["WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "Microsoft YaHei", "PingFang SC", "SimHei"]


def _figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _save(figure: Figure, path: Path) -> bool:
    installed = {font.name for font in font_manager.fontManager.ttflist}
    for text in figure.findobj(matplotlib.text.Text):
        text.set_fontfamily([name for name in _FONTS if name in installed])
    with atomic_file(path) as temporary, warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", message="Glyph .* missing from font")
        figure.savefig(temporary, format="png", dpi=120)
    return not any("missing from font" in str(warning.message) for warning in caught)


def plot_heat_map(
    path: Path,
    values: ArrayLike,
    *,
    title: str,
    rows: str,
    columns: str,
) -> bool:
    """Draw a matrix as a heat map; `rows` and `columns` are the axis labels."""
    array = np.asarray(values, dtype=np.float64)
    figure = _figure(2.5 + min(9.0, 0.28 * array.shape[1]), 1.8 + min(9.0, 0.28 * array.shape[0]))
    axes = figure.add_subplot()
    image = axes.imshow(array, aspect="auto", cmap="viridis", interpolation="nearest")
    figure.colorbar(image, ax=axes)
    axes.set(title=title, ylabel=rows, xlabel=columns)
    return _save(figure, path)


def plot_confusion_matrix(path: Path, counts: ArrayLike, labels: Sequence[str]) -> bool:
    """Draw a confusion matrix (gold labels, predictions), coloured by proportion of the row."""
    array = np.asarray(counts, dtype=np.int64)
    proportions = array / np.maximum(array.sum(1, keepdims=True), 1)
    size = 2.2 + min(14.0, 0.42 * len(labels))
    figure = _figure(size + 0.8, size)
    axes = figure.add_subplot()
    image = axes.imshow(proportions, vmin=0, vmax=1, cmap="Blues")
    figure.colorbar(image, ax=axes, label="proportion of the row")
    axes.set(title="Confusion matrix", ylabel="gold", xlabel="predicted")
    _label(axes, labels, labels)
    for row, column in zip(*np.nonzero(array), strict=True):
        color = "white" if proportions[row, column] > 0.5 else "black"
        text = str(array[row, column])
        axes.text(column, row, text, ha="center", va="center", fontsize=6, color=color)
    return _save(figure, path)


def plot_attention_heads(
    path: Path,
    weights: NDArray[np.float32],
    *,
    title: str,
    row_labels: Sequence[str],
    column_labels: Sequence[str],
    first: tuple[int, int] = (1, 1),
) -> bool:
    """Draw attention weights (layers, H, T, S): a row per layer, a column per head.

    `first` is the number of the first layer and of the first head.
    """
    layers, heads, height, width = weights.shape
    size = 1.2 + 0.22 * max(height, width)
    figure = _figure(heads * size, layers * size + 1.0)
    figure.suptitle(title)
    panels = figure.subplots(layers, heads, squeeze=False)
    for layer in range(layers):
        for head in range(heads):
            axes = panels[layer, head]
            axes.imshow(weights[layer, head], vmin=0, vmax=1, cmap="viridis")
            axes.set_title(f"layer {layer + first[0]}, head {head + first[1]}", fontsize=8)
            _label(axes, row_labels if head == 0 else (), column_labels)
            if head:
                axes.set_yticks([])
    return _save(figure, path)


def plot_alignment(
    path: Path,
    source: Sequence[str],
    target: Sequence[str],
    links: Collection[tuple[int, int]],
    *,
    title: str,
) -> bool:
    """Draw source tokens above target tokens, and the alignment links (source, target)."""
    figure = _figure(1 + 0.12 * max(_line_width(source), _line_width(target)), 2.6)
    axes = figure.add_subplot()
    above, below = _centers(source), _centers(target)
    offset = (_line_width(source) - _line_width(target)) / 2  # centers the shorter line
    below = below + max(offset, 0)
    above = above - min(offset, 0)
    for i, j in links:
        axes.plot([above[i], below[j]], [0.86, 0.14], color="tab:blue", linewidth=1.2)
    for tokens, centers, height in ((source, above, 1), (target, below, 0)):
        for token, center in zip(tokens, centers, strict=True):
            axes.text(center, height, token, ha="center", va="center", fontsize=9)
    axes.set(
        title=title, ylim=(-0.2, 1.2), xlim=(-1, max(_line_width(source), _line_width(target)) + 1)
    )
    axes.axis("off")
    return _save(figure, path)


def plot_fertilities(
    path: Path,
    source: Sequence[str],
    origins: Sequence[int],
    predictions: Sequence[str],
    read: Sequence[bool],
    *,
    title: str,
) -> bool:
    """Draw source tokens with their fertilities, their copies, and the token predicted for each.

    `origins` are the source positions of the copies; predictions that are not `read` are grey.
    """
    counts = [list(origins).count(position) for position in range(len(source))]
    above = [f"{token}  {count}" for token, count in zip(source, counts, strict=True)]
    widest = [max((source[o], p), key=_width) for o, p in zip(origins, predictions, strict=True)]
    width = max(_line_width(above), _line_width(widest))
    source_centers = _centers(above) + (width - _line_width(above)) / 2
    copy_centers = _centers(widest) + (width - _line_width(widest)) / 2
    figure = _figure(1 + 0.12 * width, 3.2)
    axes = figure.add_subplot()
    for token, count, center in zip(above, counts, source_centers, strict=True):
        color = "black" if count else "silver"
        axes.text(center, 2, token, ha="center", va="center", fontsize=9, color=color)
    for origin, token, is_read, center in zip(
        origins, predictions, read, copy_centers, strict=True
    ):
        axes.plot([source_centers[origin], center], [1.86, 1.14], color="tab:blue", linewidth=1.2)
        axes.plot([center, center], [0.86, 0.14], color="silver", linewidth=1.0)
        axes.text(center, 1, source[origin], ha="center", va="center", fontsize=9)
        color = "black" if is_read else "silver"
        axes.text(center, 0, token, ha="center", va="center", fontsize=9, color=color)
    axes.set(title=title, ylim=(-0.2, 2.2), xlim=(-1, width + 1))
    axes.axis("off")
    return _save(figure, path)


def _line_width(tokens: Sequence[str]) -> int:
    """The width of tokens side by side, in Latin characters."""
    return sum(_width(token) for token in tokens)


def _centers(tokens: Sequence[str]) -> NDArray[np.float64]:
    widths = np.array([_width(token) for token in tokens], dtype=np.float64)
    return np.cumsum(widths) - widths / 2


def _width(token: str) -> int:
    return 2 + sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in token)


def plot_heat_map_grid(
    path: Path, maps: Mapping[str, ArrayLike], *, rows: str, columns: str
) -> bool:
    """Draw heat maps of values from 0 to 1 side by side, up to three per row."""
    across = min(3, len(maps))
    down = -(-len(maps) // across)
    figure = _figure(2.6 * across, 2.8 * down)
    axes = figure.subplots(down, across, squeeze=False).flatten()
    for panel, (name, values) in zip(axes, maps.items(), strict=False):
        panel.imshow(np.asarray(values, dtype=np.float64), vmin=0, vmax=1, cmap="viridis")
        panel.set_title(name, fontsize=9)
        panel.set(ylabel=rows, xlabel=columns, xticks=[], yticks=[])
    for panel in axes[len(maps) :]:
        panel.remove()
    return _save(figure, path)


def _label(axes: Any, rows: Sequence[str], columns: Sequence[str]) -> None:
    if rows:
        axes.set_yticks(range(len(rows)), rows, fontsize=7)
    if columns:
        axes.set_xticks(range(len(columns)), columns, rotation=90, fontsize=7)


def plot_lines(
    path: Path, lines: Mapping[str, Sequence[float]], *, title: str, x: str, y: str
) -> bool:
    """Draw lines over x = 1, 2, 3, ..."""
    figure = _figure(8, 4.5)
    axes = figure.add_subplot()
    for name, values in lines.items():
        axes.plot(range(1, len(values) + 1), values, label=name)
    axes.set(title=title, xlabel=x, ylabel=y)
    axes.grid(alpha=0.3)
    if len(lines) > 1:
        axes.legend()
    return _save(figure, path)


@dataclass(frozen=True)
class Panel:
    """Lines over the same x positions; points that are None are not drawn."""

    title: str
    x: str
    positions: Sequence[float]
    lines: Mapping[str, Sequence[float | None]]
    labels: Sequence[str] = ()  # of the positions; default: their values
    logarithmic: bool = False  # y axis


def plot_line_panels(path: Path, panels: Sequence[Panel]) -> bool:
    """Draw panels side by side, with one legend."""
    figure = _figure(3.3 * len(panels), 3.0)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, panel in zip(axes, panels, strict=True):
        for name, values in panel.lines.items():
            points = [np.nan if value is None else value for value in values]
            axis.plot(panel.positions, points, marker="." if panel.labels else "", label=name)
        axis.set_title(panel.title, fontsize=9)
        axis.set_xlabel(panel.x, fontsize=9)
        if panel.logarithmic:
            axis.set_yscale("log")
        axis.tick_params(labelsize=8)
        if panel.labels:
            axis.set_xticks(panel.positions, panel.labels, fontsize=7)
        else:
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.grid(alpha=0.3)
    names = axes[0].get_legend_handles_labels()
    figure.legend(*names, loc="outside lower center", ncols=3, fontsize=8)
    return _save(figure, path)


def plot_bars(
    path: Path,
    groups: Mapping[str, Sequence[float]],
    *,
    labels: Sequence[str],
    title: str,
    y: str,
) -> bool:
    """Draw grouped bars: a group per label, a bar per name."""
    figure = _figure(8, 4.5)
    axes = figure.add_subplot()
    _grouped(axes, groups, labels)
    axes.set(title=title, ylabel=y)
    axes.legend()
    return _save(figure, path)


def _grouped(axes: Any, groups: Mapping[str, Sequence[float]], labels: Sequence[str]) -> None:
    width = 0.8 / len(groups)
    for number, (name, values) in enumerate(groups.items()):
        centers = np.arange(len(labels)) + width * (number - (len(groups) - 1) / 2)
        axes.bar(centers, values, width, label=name)
    axes.set_xticks(range(len(labels)), labels)
    axes.grid(axis="y", alpha=0.3)


def plot_calibration(path: Path, levels: Mapping[str, CurvePair]) -> bool:
    """Draw the calibration curves of each level, before and after calibration.

    The area of a point is in proportion to the number of predictions in its bin.
    """
    figure = _figure(3.4 * len(levels), 3.8)
    panels = figure.subplots(1, len(levels), squeeze=False)[0]
    for axes, (name, pair) in zip(panels, levels.items(), strict=True):
        axes.plot([0, 1], [0, 1], color="silver", linewidth=1, linestyle="--")
        for label, curve in (("before calibration", pair.before), ("after", pair.after)):
            counts = np.asarray(curve.counts, dtype=np.float64)
            points = np.asarray([curve.confidence, curve.accuracy])[:, counts > 0]
            axes.plot(*points, linewidth=1.2, label=label)
            axes.scatter(*points, s=4 + 120 * (counts / counts.sum())[counts > 0])
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", aspect="equal")
        axes.set_title(f"{name}: ECE {pair.before.ece:.3f}, after {pair.after.ece:.3f}", fontsize=9)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("accuracy")
    names = panels[0].get_legend_handles_labels()
    figure.legend(*names, loc="outside lower center", ncols=2, fontsize=8)
    return _save(figure, path)


def plot_quality(
    path: Path,
    *,
    lengths: Sequence[str],
    bleu: Mapping[str, Sequence[float]],
    scores: Mapping[str, Sequence[float]],
) -> bool:
    """Draw BLEU by length, and a histogram of sentence-level chrF2, for each system."""
    figure = _figure(11, 4.5)
    left, right = figure.subplots(1, 2)
    _grouped(left, bleu, lengths)
    left.set(title="BLEU by length", xlabel="reference length in words (sentences)", ylabel="BLEU")
    for name, values in scores.items():
        right.hist(values, bins=20, range=(0, 100), histtype="step", linewidth=1.5, label=name)
    right.set(title="chrF2 of each sentence", xlabel="chrF2", ylabel="sentences")
    right.grid(alpha=0.3)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return _save(figure, path)


def plot_trials(
    path: Path,
    values: Mapping[int, float],
    settings: Mapping[str, Sequence[Any]],
    *,
    metric: str,
    maximized: bool,
    logarithmic: Collection[str] = (),
) -> bool:
    """Draw the values of trials by number, with the best so far, and by each setting.

    `logarithmic` are the settings with a logarithmic axis.
    """
    numbers, heights = [*values], [*values.values()]
    columns = min(3, 1 + len(settings))
    figure = _figure(3.4 * columns, 3.0 * -(-(1 + len(settings)) // columns))
    for place, (name, positions) in enumerate({"trial": numbers, **settings}.items()):
        axes = figure.add_subplot(-(-(1 + len(settings)) // columns), columns, place + 1)
        is_number = all(type(position) in (int, float) for position in positions)
        points = positions if is_number else [*map(str, positions)]
        axes.scatter(points, heights, c=numbers, cmap="viridis", s=16)
        axes.set(xlabel=name, ylabel="" if place % columns else metric)
        axes.grid(alpha=0.3)
        if name in logarithmic:
            axes.set_xscale("log")
            axes.tick_params("x", which="both", labelsize=7, rotation=45)
    best = (np.maximum if maximized else np.minimum).accumulate(np.asarray(heights))
    figure.axes[0].step(numbers, best, where="post", color="silver", zorder=0)
    return _save(figure, path)


def text_heat_map(
    values: ArrayLike, row_labels: Sequence[str] = (), column_labels: Sequence[str] = ()
) -> str:
    """A matrix as text: shaded blocks of two characters, with column labels below."""
    array = np.asarray(values, dtype=np.float64)
    low, high = float(array.min()), float(array.max())
    scaled = (array - low) / (high - low) if high > low else np.ones_like(array)
    shades = np.minimum((scaled * len(_SHADES)).astype(int), len(_SHADES) - 1)
    margin = max((len(label) for label in row_labels), default=0)
    lines = []
    for number, row in enumerate(shades):
        label = row_labels[number] if row_labels else ""
        lines.append(f"{label:>{margin}} |" + "".join(_SHADES[shade] * 2 for shade in row) + "|")
    if column_labels:
        for number, label in enumerate(column_labels):
            lines.append(" " * (margin + 2 + 2 * number) + "└ " + label)
    return "\n".join(lines)


def text_curve(values: Sequence[float], *, width: int = 72, height: int = 12) -> str:
    """A curve as text, with its maximum and minimum on the y axis."""
    positions = np.linspace(0, len(values) - 1, min(width, len(values))).round().astype(int)
    points = np.asarray(values, dtype=np.float64)[positions]
    low, high = float(points.min()), float(points.max())
    levels = np.zeros(len(points), dtype=int)
    if high > low:
        levels = ((points - low) / (high - low) * (height - 1)).round().astype(int)
    lines = []
    for level in reversed(range(height)):
        value = {height - 1: f"{high:.3g}", 0: f"{low:.3g}"}.get(level, "")
        lines.append(f"{value:>9} |" + "".join("•" if point == level else " " for point in levels))
    return "\n".join([*lines, " " * 10 + f"1 ... {len(values)}"])
