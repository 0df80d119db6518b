"""The cache: converted models, kept on disk so that they are converted only once.

Entries are folders, `KIND/KEY`, written atomically. A key is a fingerprint of everything that an
entry depends on, so entries never become invalid. The least recently used ones are removed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from regard.errors import RegardError
from regard.files import atomic_folder, is_temporary_path

_MAX_ENTRIES = 16  # of a kind


def cache_folder() -> Path:
    """The folder of the cache in the user's cache directory (XDG base directory specification)."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    folder = Path(cache) if os.path.isabs(cache) else Path(os.path.expanduser("~/.cache"))
    return folder / "regard"


def cached_entry(kind: str, key: str) -> Path | None:
    """The entry with this key; None if there is none."""
    path = cache_folder() / kind / key
    if not path.is_dir():
        return None
    with suppress(OSError):
        os.utime(path)  # it was used
    return path


def add_entry(kind: str, key: str, write: Callable[[Path], None]) -> Path | None:
    """Write an entry with a function that fills its folder; None if the cache cannot be written.

    Several processes may write the same entry: one succeeds, and the others get None.
    """
    path = cache_folder() / kind / key
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with atomic_folder(path) as temporary:
            write(temporary)
        _evict(path.parent)
    except (OSError, RegardError):
        return None
    return path


def _evict(folder: Path) -> None:
    """Remove the least recently used entries above the limit."""
    entries = [entry for entry in cache_entries() if entry.parent == folder]
    for entry in sorted(entries, key=lambda path: path.stat().st_mtime)[:-_MAX_ENTRIES]:
        shutil.rmtree(entry, ignore_errors=True)


def cache_entries() -> list[Path]:
    """The folders of all entries."""
    paths = cache_folder().glob("*/*")
    return sorted(path for path in paths if path.is_dir() and not is_temporary_path(path))


def entry_size(entry: Path) -> int:
    """The size of an entry in bytes."""
    return sum(path.stat().st_size for path in entry.rglob("*") if path.is_file())


def clear_cache() -> None:
    """Remove all entries."""
    for entry in cache_entries():
        shutil.rmtree(entry)
