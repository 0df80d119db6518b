"""regard cache: lists or removes converted models, which are kept on disk."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.cache import cache_entries, cache_folder, clear_cache, entry_size
from regard.cli.results import FormatOnly
from regard.progress import notify


def cache(
    context: typer.Context,
    output: FormatOnly,
    clear: Annotated[bool, typer.Option("--clear", help="Remove all entries.")] = False,
) -> None:
    """List models that were converted to CTranslate2, which are kept to load faster."""
    sizes = {path: entry_size(path) for path in cache_entries()}
    if clear:
        clear_cache()
    with output.results(context) as results:
        for path, size in sizes.items():
            row = {"path": str(path), "bytes": size, "removed": clear}
            results.add(row, f"{size / 1e6:10,.1f} MB  {path}")
    verb = "removed from" if clear else "in"
    entries = "1 entry" if len(sizes) == 1 else f"{len(sizes):,} entries"
    notify(f"{entries}, {sum(sizes.values()) / 1e6:,.1f} MB, {verb} {cache_folder()}.")
