"""The cache of converted models: entries, limits, concurrent writers, and the command."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.commands import Command, regard
from regard import cache
from regard.cache import add_entry, cache_entries, cached_entry, clear_cache

__all__ = ["regard"]  # a fixture


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "regard"


def write(text: str) -> Callable[[Path], None]:
    def write_to(folder: Path) -> None:
        (folder / "text").write_text(text)

    return write_to


def test_entries_are_written_once_and_read(folder: Path) -> None:
    assert cached_entry("kind", "a") is None
    assert add_entry("kind", "a", write("x")) == folder / "kind" / "a"
    entry = cached_entry("kind", "a")
    assert entry is not None
    assert (entry / "text").read_text() == "x"
    assert cache_entries() == [entry]
    clear_cache()
    assert cache_entries() == []


def test_least_recently_used_entries_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_MAX_ENTRIES", 2)
    for age, key in enumerate("ab"):
        entry = add_entry("kind", key, write(key))
        assert entry is not None
        os.utime(entry, (1000 + age, 1000 + age))
    cached_entry("kind", "a")  # now used more recently than b
    add_entry("kind", "c", write("c"))
    assert [entry.name for entry in cache_entries()] == ["a", "c"]


def test_unwritable_cache_is_not_an_error(folder: Path) -> None:
    folder.parent.mkdir()
    folder.write_text("a file")
    assert add_entry("kind", "a", write("x")) is None
    assert cached_entry("kind", "a") is None


def test_failed_entries_leave_nothing(folder: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "text").write_text("x")
        raise OSError(28, "No space left on device")

    assert add_entry("kind", "a", fail) is None
    assert cache_entries() == []
    assert not [path for path in folder.rglob("*") if path.name == "text"]


def _add(number: int) -> bool:
    return add_entry("kind", "same", write(str(number) * 10_000)) is not None


def test_concurrent_writers_leave_one_complete_entry() -> None:
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert any(pool.map(_add, range(8)))
    [entry] = cache_entries()
    text = (entry / "text").read_text()
    assert text == text[0] * 10_000


def test_command_lists_and_clears(regard: Command, folder: Path) -> None:
    add_entry("kind", "a", write("x" * 1_500_000))
    assert regard("cache").out == f"       1.5 MB  {folder / 'kind' / 'a'}\n"
    [row] = json.loads(regard("cache", "--format", "json").out)["results"]
    assert row == {"path": str(folder / "kind" / "a"), "bytes": 1_500_000, "removed": False}
    cleared = regard("cache", "--clear")
    assert cleared.err == f"1 entry, 1.5 MB, removed from {folder}.\n"
    assert not cache_entries()
