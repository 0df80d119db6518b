"""Writes generated tables and pictures into the documentation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def fill(page: Path, name: str, table: str) -> None:
    """Write a table between a page's `<!-- name: ... -->` and `<!-- /name -->`."""
    text = page.read_text(encoding="utf-8")
    head, rest = text.split(f"<!-- {name}: ", 1)
    remark, rest = rest.split(" -->\n", 1)
    tail = rest.split(f"<!-- /{name} -->", 1)[1]
    filled = f"{head}<!-- {name}: {remark} -->\n{table}\n<!-- /{name} -->{tail}"
    page.write_text(filled, encoding="utf-8")


def save_svg(figure: Figure, path: Path) -> None:
    """Write a figure as reproducible SVG with searchable text."""
    import matplotlib

    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "regard"}):
        figure.savefig(path, format="svg", metadata={"Date": None})
