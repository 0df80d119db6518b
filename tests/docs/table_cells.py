"""Text from the code as Markdown of the generated pages."""

from __future__ import annotations

import re


def escape_cell(text: str) -> str:
    """Return a text as one line that is safe in a table cell; code spans keep their `<`."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.replace("|", "\\|").split()))
    return "".join(part if part.startswith("`") else part.replace("<", "&lt;") for part in parts)
