"""Every picture, from arrays: as a PNG, or as text for the terminal.

Functions that write a PNG tell whether the fonts of this system have all its characters.
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

from regard.files import whole_file

_SHADES = " ░▒▓█"
# Tried in this order for what the first does not have, where they are installed.
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
    with whole_file(path) as temporary, warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", message="Glyph .* missing from font")
        figure.savefig(temporary, format="png", dpi=120)
    return not any("missing from font" in str(warning.message) for warning in caught)


def heat_map(
    path: Path,
    values: ArrayLike,
    *,
    title: str,
    rows: str,
    columns: str,
) -> bool:
    """A matrix as colours; `rows` and `columns` name the axes."""
    array = np.asarray(values, dtype=np.float64)
    figure = _figure(2.5 + min(9.0, 0.28 * array.shape[1]), 1.8 + min(9.0, 0.28 * array.shape[0]))
    axes = figure.add_subplot()
    image = axes.imshow(array, aspect="auto", cmap="viridis", interpolation="nearest")
    figure.colorbar(image, ax=axes)
    axes.set(title=title, ylabel=rows, xlabel=columns)
    return _save(figure, path)


def confusion(path: Path, counts: ArrayLike, labels: Sequence[str]) -> bool:
    """How often each label (a row) was taken for each (a column): shares as colours, and counts."""
    array = np.asarray(counts, dtype=np.int64)
    shares = array / np.maximum(array.sum(1, keepdims=True), 1)
    size = 2.2 + min(14.0, 0.42 * len(labels))
    figure = _figure(size + 0.8, size)
    axes = figure.add_subplot()
    image = axes.imshow(shares, vmin=0, vmax=1, cmap="Blues")
    figure.colorbar(image, ax=axes, label="share of the row")
    axes.set(title="Which label is taken for which", ylabel="right", xlabel="found")
    _label(axes, labels, labels)
    for row, column in zip(*np.nonzero(array), strict=True):
        color = "white" if shares[row, column] > 0.5 else "black"
        text = str(array[row, column])
        axes.text(column, row, text, ha="center", va="center", fontsize=6, color=color)
    return _save(figure, path)


def attention_heads(
    path: Path,
    weights: NDArray[np.float32],
    *,
    title: str,
    row_labels: Sequence[str],
    column_labels: Sequence[str],
) -> bool:
    """Every layer (a row) and head (a column) of (layers, H, T, S) weights."""
    layers, heads, height, width = weights.shape
    size = 1.2 + 0.22 * max(height, width)
    figure = _figure(heads * size, layers * size + 0.6)
    figure.suptitle(title)
    panels = figure.subplots(layers, heads, squeeze=False)
    for layer in range(layers):
        for head in range(heads):
            axes = panels[layer, head]
            axes.imshow(weights[layer, head], vmin=0, vmax=1, cmap="viridis")
            axes.set_title(f"layer {layer + 1}, head {head + 1}", fontsize=8)
            _label(axes, row_labels if head == 0 else (), column_labels)
            if head:
                axes.set_yticks([])
    return _save(figure, path)


def alignment(
    path: Path,
    source: Sequence[str],
    target: Sequence[str],
    links: Collection[tuple[int, int]],
    *,
    title: str,
) -> bool:
    """The words of a pair in two lines, and between them the links (source, target)."""
    figure = _figure(1 + 0.12 * max(_span(source), _span(target)), 2.6)
    axes = figure.add_subplot()
    above, below = _middles(source), _middles(target)
    offset = (_span(source) - _span(target)) / 2  # the shorter line stands in the middle
    below = below + max(offset, 0)
    above = above - min(offset, 0)
    for i, j in links:
        axes.plot([above[i], below[j]], [0.86, 0.14], color="tab:blue", linewidth=1.2)
    for words, middles, height in ((source, above, 1), (target, below, 0)):
        for word, middle in zip(words, middles, strict=True):
            axes.text(middle, height, word, ha="center", va="center", fontsize=9)
    axes.set(title=title, ylim=(-0.2, 1.2), xlim=(-1, max(_span(source), _span(target)) + 1))
    axes.axis("off")
    return _save(figure, path)


def copies(
    path: Path,
    source: Sequence[str],
    origins: Sequence[int],
    written: Sequence[str],
    read: Sequence[bool],
    *,
    title: str,
) -> bool:
    """Source words with their fertilities, the copies of each, and what was written at each copy.

    `origins` say of which source word each place is a copy; what is not `read` is grey.
    """
    counts = [list(origins).count(place) for place in range(len(source))]
    above = [f"{word}  {count}" for word, count in zip(source, counts, strict=True)]
    room = [max((source[o], w), key=_room) for o, w in zip(origins, written, strict=True)]
    span = max(_span(above), _span(room))
    tops = _middles(above) + (span - _span(above)) / 2
    places = _middles(room) + (span - _span(room)) / 2
    figure = _figure(1 + 0.12 * span, 3.2)
    axes = figure.add_subplot()
    for word, count, middle in zip(above, counts, tops, strict=True):
        color = "black" if count else "silver"
        axes.text(middle, 2, word, ha="center", va="center", fontsize=9, color=color)
    for origin, word, seen, middle in zip(origins, written, read, places, strict=True):
        axes.plot([tops[origin], middle], [1.86, 1.14], color="tab:blue", linewidth=1.2)
        axes.plot([middle, middle], [0.86, 0.14], color="silver", linewidth=1.0)
        axes.text(middle, 1, source[origin], ha="center", va="center", fontsize=9)
        color = "black" if seen else "silver"
        axes.text(middle, 0, word, ha="center", va="center", fontsize=9, color=color)
    axes.set(title=title, ylim=(-0.2, 2.2), xlim=(-1, span + 1))
    axes.axis("off")
    return _save(figure, path)


def _span(words: Sequence[str]) -> int:
    """How much room words need side by side, in characters of Latin script."""
    return sum(_room(word) for word in words)


def _middles(words: Sequence[str]) -> NDArray[np.float64]:
    room = np.array([_room(word) for word in words], dtype=np.float64)
    return np.cumsum(room) - room / 2


def _room(word: str) -> int:
    return 2 + sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in word)


def panels(path: Path, maps: Mapping[str, ArrayLike], *, rows: str, columns: str) -> bool:
    """Matrices of numbers from 0 to 1 side by side, each under its name; up to three in a line."""
    across = min(3, len(maps))
    down = -(-len(maps) // across)
    figure = _figure(2.6 * across, 2.8 * down)
    axes = figure.subplots(down, across, squeeze=False).flatten()
    for place, (name, values) in zip(axes, maps.items(), strict=False):
        place.imshow(np.asarray(values, dtype=np.float64), vmin=0, vmax=1, cmap="viridis")
        place.set_title(name, fontsize=9)
        place.set(ylabel=rows, xlabel=columns, xticks=[], yticks=[])
    for place in axes[len(maps) :]:
        place.remove()
    return _save(figure, path)


def _label(axes: Any, rows: Sequence[str], columns: Sequence[str]) -> None:
    if rows:
        axes.set_yticks(range(len(rows)), rows, fontsize=7)
    if columns:
        axes.set_xticks(range(len(columns)), columns, rotation=90, fontsize=7)


def curves(path: Path, lines: Mapping[str, Sequence[float]], *, title: str, x: str, y: str) -> bool:
    """Lines over 1, 2, 3, ..."""
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
    """Lines over the same places; a point that is None is left out."""

    title: str
    x: str
    places: Sequence[float]
    lines: Mapping[str, Sequence[float | None]]
    labels: Sequence[str] = ()  # of the places; their numbers, if not told
    logarithmic: bool = False  # from bottom to top


def line_panels(path: Path, panels: Sequence[Panel]) -> bool:
    """Some panels side by side, with one legend for all."""
    figure = _figure(3.3 * len(panels), 3.0)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for place, panel in zip(axes, panels, strict=True):
        for name, values in panel.lines.items():
            known = [np.nan if value is None else value for value in values]
            place.plot(panel.places, known, marker="." if panel.labels else "", label=name)
        place.set_title(panel.title, fontsize=9)
        place.set_xlabel(panel.x, fontsize=9)
        if panel.logarithmic:
            place.set_yscale("log")
        place.tick_params(labelsize=8)
        if panel.labels:
            place.set_xticks(panel.places, panel.labels, fontsize=7)
        else:
            place.xaxis.set_major_locator(MaxNLocator(integer=True))
        place.grid(alpha=0.3)
    names = axes[0].get_legend_handles_labels()
    figure.legend(*names, loc="outside lower center", ncols=3, fontsize=8)
    return _save(figure, path)


def bars(
    path: Path,
    groups: Mapping[str, Sequence[float]],
    *,
    labels: Sequence[str],
    title: str,
    y: str,
) -> bool:
    """Bars side by side at each label, one of each name."""
    figure = _figure(8, 4.5)
    axes = figure.add_subplot()
    _grouped(axes, groups, labels)
    axes.set(title=title, ylabel=y)
    axes.legend()
    return _save(figure, path)


def _grouped(axes: Any, groups: Mapping[str, Sequence[float]], labels: Sequence[str]) -> None:
    width = 0.8 / len(groups)
    for number, (name, values) in enumerate(groups.items()):
        middles = np.arange(len(labels)) + width * (number - (len(groups) - 1) / 2)
        axes.bar(middles, values, width, label=name)
    axes.set_xticks(range(len(labels)), labels)
    axes.grid(axis="y", alpha=0.3)


def quality(
    path: Path,
    *,
    lengths: Sequence[str],
    bleu: Mapping[str, Sequence[float]],
    scores: Mapping[str, Sequence[float]],
) -> bool:
    """Systems side by side: BLEU at each of some lengths, and how many sentences score how much."""
    figure = _figure(11, 4.5)
    left, right = figure.subplots(1, 2)
    _grouped(left, bleu, lengths)
    left.set(title="BLEU by length", xlabel="words of the reference (sentences)", ylabel="BLEU")
    for name, values in scores.items():
        right.hist(values, bins=20, range=(0, 100), histtype="step", linewidth=1.5, label=name)
    right.set(title="chrF2 of each sentence", xlabel="chrF2", ylabel="sentences")
    right.grid(alpha=0.3)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return _save(figure, path)


def text_heat_map(
    values: ArrayLike, row_labels: Sequence[str] = (), column_labels: Sequence[str] = ()
) -> str:
    """A matrix as shaded blocks, two characters wide; columns are numbered and named below."""
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
    """A line as characters, with its highest and lowest value at the side."""
    places = np.linspace(0, len(values) - 1, min(width, len(values))).round().astype(int)
    points = np.asarray(values, dtype=np.float64)[places]
    low, high = float(points.min()), float(points.max())
    levels = np.zeros(len(points), dtype=int)
    if high > low:
        levels = ((points - low) / (high - low) * (height - 1)).round().astype(int)
    lines = []
    for level in reversed(range(height)):
        value = {height - 1: f"{high:.3g}", 0: f"{low:.3g}"}.get(level, "")
        lines.append(f"{value:>9} |" + "".join("•" if here == level else " " for here in levels))
    return "\n".join([*lines, " " * 10 + f"1 ... {len(values)}"])
