"""The generated pages of the documentation: `make docs` writes them, a test compares them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from docs.api_page import api_page
from docs.architecture_page import architecture_page
from docs.cli_page import cli_page
from docs.messages_page import messages_page
from docs.settings_page import settings_page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GENERATED: dict[str, Callable[[], str]] = {  # paths below docs/
    "design/architecture.md": architecture_page,
    "reference/api.md": api_page,
    "reference/cli.md": cli_page,
    "reference/messages.md": messages_page,
    "reference/settings.md": settings_page,
}


if __name__ == "__main__":
    for name, page in GENERATED.items():
        (DOCS / name).parent.mkdir(parents=True, exist_ok=True)
        (DOCS / name).write_text(page(), encoding="utf-8")
