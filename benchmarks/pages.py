"""Tables in the documentation that programs fill."""

from __future__ import annotations

from pathlib import Path


def fill(page: Path, name: str, table: str) -> None:
    """Put a table between a page's `<!-- name: ... -->` and `<!-- /name -->`."""
    text = page.read_text(encoding="utf-8")
    head, rest = text.split(f"<!-- {name}: ", 1)
    remark, rest = rest.split(" -->\n", 1)
    tail = rest.split(f"<!-- /{name} -->", 1)[1]
    filled = f"{head}<!-- {name}: {remark} -->\n{table}\n<!-- /{name} -->{tail}"
    page.write_text(filled, encoding="utf-8")
