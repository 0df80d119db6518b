"""Several processes with one output, and processes that are killed while they write."""

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
from regard.files import held_output, is_leftover, whole_file, whole_folder, write_text

FORK = multiprocessing.get_context("fork")  # starting Python anew would take most of the time
FILES, LINES = 4, 200


def put_folder(path: Path, writer: str) -> None:
    with whole_folder(path) as temporary:
        for number in range(FILES):
            (temporary / f"{number}").write_text(f"{writer}\n" * LINES)


def put_file(path: Path, writer: str) -> None:
    with whole_file(path) as temporary, temporary.open("w") as file:
        for _ in range(LINES):
            file.write(f"{writer}\n")


def writers_of(path: Path) -> set[str]:
    """Those whose text is in the output, which must be complete."""
    files = [path / f"{number}" for number in range(FILES)] if path.is_dir() else [path]
    texts = [file.read_text().splitlines() for file in files]
    assert all(len(lines) == LINES for lines in texts)
    return {line for lines in texts for line in lines}


def compete(put: Callable[[Path, str], None], path: Path, writer: str, start: Barrier) -> None:
    """Write as soon as all are ready; the exit status says who was refused."""
    start.wait()
    try:
        put(path, writer)
    except StorageError as error:
        os._exit(3 if "in use by another process" in str(error) else 1)
    except BaseException:
        os._exit(1)
    os._exit(0)


@pytest.mark.parametrize("put", [put_folder, put_file])
def test_one_of_many_writers_wins_and_the_others_are_refused(
    tmp_path: Path, put: Callable[[Path, str], None]
) -> None:
    statuses = []
    for number in range(12):
        path = tmp_path / "new" / "folders" / "output"
        start = FORK.Barrier(4)
        processes = [
            FORK.Process(target=compete, args=(put, path, f"{number} {writer}", start))
            for writer in range(4)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        found = [process.exitcode for process in processes]
        assert {*found} <= {0, 3}, found
        assert 0 in found
        [writer] = writers_of(path)
        assert found[int(writer.split()[1])] == 0
        assert [entry.name for entry in path.parent.iterdir()] == ["output"]
        statuses += found
    assert 3 in statuses


def write_for_ever(put: Callable[[Path, str], None], path: Path) -> None:
    for number in range(10**9):
        put(path, str(number))


@pytest.mark.parametrize("put", [put_folder, put_file])
def test_kills_at_random_instants_leave_something_whole(
    tmp_path: Path, put: Callable[[Path, str], None]
) -> None:
    path, notes = tmp_path / "output", tmp_path / "output.partial"
    put(path, "first")
    notes.write_text("dear")
    draw = random.Random()
    for _ in range(25):
        process = FORK.Process(target=write_for_ever, args=(put, path))
        process.start()
        time.sleep(0.01 + draw.random() * 0.03)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        left = {entry for entry in tmp_path.iterdir() if not is_leftover(entry)}
        assert left - {path} == {notes}
        with held_output(path):  # the next writer finds a whole output, and no leftovers
            assert len(writers_of(path)) == 1
        assert {*tmp_path.iterdir()} == {path, notes}
    assert notes.read_text() == "dear"


def test_a_holder_keeps_others_out_before_they_begin(tmp_path: Path) -> None:
    path = tmp_path / "output"
    start = FORK.Barrier(1)
    with held_output(path):
        process = FORK.Process(target=compete, args=(put_folder, path, "other", start))
        process.start()
        process.join()
        assert process.exitcode == 3
        put_folder(path, "own")  # which its holder may write as often as it likes
        put_folder(path, "own")
    assert writers_of(path) == {"own"}


def test_links_to_one_output_have_one_lock(tmp_path: Path) -> None:
    (tmp_path / "large-disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "large-disk")
    with held_output(tmp_path / "link" / "output"):
        arguments = (put_file, tmp_path / "large-disk" / "output", "other", FORK.Barrier(1))
        process = FORK.Process(target=compete, args=arguments)
        process.start()
        process.join()
    assert process.exitcode == 3


def test_outputs_of_one_folder_do_not_wait_for_each_other(tmp_path: Path) -> None:
    with held_output(tmp_path / "a"), held_output(tmp_path / "b"):
        write_text(tmp_path / "c", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
