"""MkDocs hooks: links to files outside docs/ become text, and find.md comes first in searches."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s#:]+)(?:#[^)]*)?\)")
_SEARCH_BOOST = {"start/find.md": 20, "concepts/glossary.md": 3, "results/log.md": 0.1}


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Return the page without links that leave docs/; they only work in the repository."""
    docs = Path(config["docs_dir"])
    folder = (docs / page.file.src_path).parent
    page.meta["search"] = {"boost": _SEARCH_BOOST.get(page.file.src_path, 1)}

    def keep_inside(match: re.Match[str]) -> str:
        return match[0] if (folder / match[2]).resolve().is_relative_to(docs) else match[1]

    return _LINK.sub(keep_inside, markdown)
