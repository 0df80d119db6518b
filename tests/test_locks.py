"""Concurrent writers of one output, and writers that are killed."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from regard.errors import StorageError
from regard.files import atomic_file, atomic_folder, is_temporary_path, locked_output, write_text

FORK = multiprocessing.get_context("fork")  # spawning would take most of the time
FILES, LINES = 4, 200


def write_folder(path: Path, writer: str) -> None:
    with atomic_folder(path) as temporary:
        for number in range(FILES):
            (temporary / f"{number}").write_text(f"{writer}\n" * LINES)


def write_file(path: Path, writer: str) -> None:
    with atomic_file(path) as temporary, temporary.open("w") as file:
        for _ in range(LINES):
            file.write(f"{writer}\n")


def writers_of(path: Path) -> set[str]:
    """The writers of the output, which must be complete."""
    files = [path / f"{number}" for number in range(FILES)] if path.is_dir() else [path]
    texts = [file.read_text().splitlines() for file in files]
    assert all(len(lines) == LINES for lines in texts)
    return {line for lines in texts for line in lines}


def compete(write: Callable[[Path, str], None], path: Path, writer: str, start: Barrier) -> None:
    """Write as soon as all processes are ready; exit status 3 if refused."""
    start.wait()
    try:
        write(path, writer)
    except StorageError as error:
        os._exit(3 if "in use by another process" in str(error) else 1)
    except BaseException:
        os._exit(1)
    os._exit(0)


@pytest.mark.parametrize("write", [write_folder, write_file])
def test_concurrent_writers_are_refused_or_succeed(
    tmp_path: Path, write: Callable[[Path, str], None]
) -> None:
    statuses = []
    for number in range(12):
        path = tmp_path / "new" / "folders" / "output"
        start = FORK.Barrier(4)
        processes = [
            FORK.Process(target=compete, args=(write, path, f"{number} {writer}", start))
            for writer in range(4)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        exit_codes = [process.exitcode for process in processes]
        assert {*exit_codes} <= {0, 3}, exit_codes
        assert 0 in exit_codes
        [writer] = writers_of(path)
        assert exit_codes[int(writer.split()[1])] == 0
        assert [entry.name for entry in path.parent.iterdir()] == ["output"]
        statuses += exit_codes
    assert 3 in statuses


def write_forever(write: Callable[[Path, str], None], path: Path) -> None:
    for number in range(10**9):
        write(path, str(number))


@pytest.mark.parametrize("write", [write_folder, write_file])
def test_killed_writers_leave_a_complete_output(
    tmp_path: Path, write: Callable[[Path, str], None]
) -> None:
    path, notes = tmp_path / "output", tmp_path / "output.partial"
    write(path, "first")
    notes.write_text("dear")
    draw = random.Random()
    for _ in range(25):
        process = FORK.Process(target=write_forever, args=(write, path))
        process.start()
        time.sleep(0.01 + draw.random() * 0.03)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        left = {entry for entry in tmp_path.iterdir() if not is_temporary_path(entry)}
        assert left - {path} == {notes}
        with locked_output(path):  # removes stale staging folders
            assert len(writers_of(path)) == 1
        assert {*tmp_path.iterdir()} == {path, notes}
    assert notes.read_text() == "dear"


def test_locked_output_refuses_other_processes(tmp_path: Path) -> None:
    path = tmp_path / "output"
    start = FORK.Barrier(1)
    with locked_output(path):
        process = FORK.Process(target=compete, args=(write_folder, path, "other", start))
        process.start()
        process.join()
        assert process.exitcode == 3
        write_folder(path, "holder")  # the lock is reentrant
        write_folder(path, "holder")
    assert writers_of(path) == {"holder"}


def test_links_to_an_output_share_its_lock(tmp_path: Path) -> None:
    (tmp_path / "large-disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "large-disk")
    with locked_output(tmp_path / "link" / "output"):
        arguments = (write_file, tmp_path / "large-disk" / "output", "other", FORK.Barrier(1))
        process = FORK.Process(target=compete, args=arguments)
        process.start()
        process.join()
    assert process.exitcode == 3


def test_outputs_in_one_folder_have_separate_locks(tmp_path: Path) -> None:
    with locked_output(tmp_path / "a"), locked_output(tmp_path / "b"):
        write_text(tmp_path / "c", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
