"""Files and folders are whole or not there; what the disk says becomes a sentence."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from regard.errors import RunError, StorageError
from regard.files import explained, locked, whole_file, whole_folder, write_json, write_text


class Interruption(BaseException):
    """What no `except Exception` catches, as Ctrl-C."""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def no_space(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def begin_file(path: Path, error: BaseException) -> None:
    with whole_file(path) as temporary:
        temporary.write_text("half")
        raise error


def begin_folder(path: Path, error: BaseException) -> None:
    with whole_folder(path) as temporary:
        (temporary / "new").write_text("half")
        raise error


def put_folder(path: Path, name: str) -> None:
    with whole_folder(path) as temporary:
        (temporary / name).write_text(name)


# One file.


def test_a_file_appears_in_folders_that_were_not_there(tmp_path: Path) -> None:
    write_text(tmp_path / "a" / "b" / "text", "whole\n")
    assert (tmp_path / "a" / "b" / "text").read_text() == "whole\n"
    assert names(tmp_path / "a" / "b") == ["text"]


def test_the_old_file_stays_until_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("old")
    with whole_file(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"


def test_who_reads_the_old_file_goes_on_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("old")
    with path.open() as reader:
        write_text(path, "new")
        assert reader.read() == "old"


@pytest.mark.parametrize("error", [ValueError("bad"), Interruption()])
def test_an_exception_leaves_the_old_file_alone(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "text"
    path.write_text("old")
    with pytest.raises(type(error)):
        begin_file(path, error)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["text"]


def test_an_exception_leaves_no_new_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bad"):
        begin_file(tmp_path / "text", ValueError("bad"))
    assert names(tmp_path) == []


def test_what_a_kill_left_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "text.partial").write_text("a longer text that was never finished")
    write_text(tmp_path / "text", "new")
    assert (tmp_path / "text").read_text() == "new"
    assert names(tmp_path) == ["text"]


def test_json_is_read_back_and_keeps_its_letters(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", {"text": "Straße 我爱你"})
    written = (tmp_path / "x.json").read_text(encoding="utf-8")
    assert json.loads(written) == {"text": "Straße 我爱你"}
    assert "Straße 我爱你" in written


# One folder.


def test_a_folder_appears_with_all_that_was_put_into_it(tmp_path: Path) -> None:
    with whole_folder(tmp_path / "a" / "store") as temporary:
        (temporary / "deep").mkdir()
        (temporary / "deep" / "file").write_text("x")
        assert not (tmp_path / "a" / "store").exists()
    assert (tmp_path / "a" / "store" / "deep" / "file").read_text() == "x"
    assert names(tmp_path / "a") == ["store"]


def test_a_new_folder_replaces_the_old_one_and_does_not_mix_with_it(tmp_path: Path) -> None:
    path = tmp_path / "store"
    for name in ("old", "new"):
        put_folder(path, name)
    assert names(path) == ["new"]
    assert names(tmp_path) == ["store"]


@pytest.mark.parametrize("error", [ValueError("bad"), Interruption()])
def test_an_exception_leaves_the_old_folder_alone(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "store"
    path.mkdir()
    (path / "old").write_text("old")
    with pytest.raises(type(error)):
        begin_folder(path, error)
    assert names(path) == ["old"]
    assert names(tmp_path) == ["store"]


def test_an_exception_leaves_no_new_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bad"):
        begin_folder(tmp_path / "store", ValueError("bad"))
    assert names(tmp_path) == []


def test_a_rename_that_fails_brings_the_old_folder_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store"
    path.mkdir()
    (path / "old").write_text("old")
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self.name == "store.partial":
            no_space()
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(StorageError):
        put_folder(path, "new")
    assert names(path) == ["old"]
    assert names(tmp_path) == ["store"]


def test_folders_that_a_kill_left_are_cleared_and_not_taken_in(tmp_path: Path) -> None:
    for left in ("store.partial", "store.old.partial"):
        (tmp_path / left).mkdir()
        (tmp_path / left / "left").write_text("half")
    put_folder(tmp_path / "store", "new")
    assert names(tmp_path) == ["store"]
    assert names(tmp_path / "store") == ["new"]


def test_a_link_to_a_folder_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "large-disk" / "store").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "large-disk" / "store")
    put_folder(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert names(tmp_path / "large-disk" / "store") == ["new"]
    assert names(tmp_path) == ["large-disk", "link"]


KILLED = """
import os, signal, sys
from pathlib import Path
from regard.files import whole_file, whole_folder
with whole_folder(Path(sys.argv[1])) as folder, whole_file(Path(sys.argv[2])) as file:
    (folder / "new").write_text("half")
    file.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_kill_leaves_the_old_ones_and_the_next_writer_clears_up(tmp_path: Path) -> None:
    folder, file = tmp_path / "store", tmp_path / "text"
    folder.mkdir()
    (folder / "old").write_text("old")
    file.write_text("old")
    process = subprocess.run([sys.executable, "-c", KILLED, folder, file], check=False)
    assert process.returncode == -signal.SIGKILL
    assert names(folder) == ["old"]
    assert file.read_text() == "old"
    put_folder(folder, "new")
    write_text(file, "new")
    assert names(folder) == ["new"]
    assert names(tmp_path) == ["store", "text"]


# What the disk says.


def test_a_full_disk_is_a_sentence_about_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "text"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(StorageError, match="the disk is full") as caught:
        write_text(path, "new")
    assert str(path) in str(caught.value)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["text"]


def test_a_full_disk_is_a_sentence_about_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(StorageError, match="the disk is full") as caught:
        put_folder(tmp_path / "store", "new")
    assert str(tmp_path / "store") in str(caught.value)
    assert names(tmp_path) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_device_that_is_really_full_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "text.partial").symlink_to("/dev/full")
    with pytest.raises(StorageError, match="the disk is full"):
        write_text(tmp_path / "text", "new")
    assert names(tmp_path) == []


def test_a_full_disk_is_known_by_its_words_where_there_is_no_number(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="the disk is full"), explained(tmp_path):
        raise RuntimeError("I/O error: No space left on device (os error 28)")


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EDQUOT, "free some space"),
        (errno.EACCES, "change the permissions"),
        (errno.EPERM, "change the permissions"),
        (errno.EROFS, "change the permissions"),
        (errno.EISDIR, "in the way"),
        (errno.ENOTDIR, "in the way"),
        (errno.EEXIST, "in the way"),
    ],
)
def test_each_refusal_of_the_system_has_its_remedy(number: int, words: str) -> None:
    with pytest.raises(StorageError, match=words) as caught, explained(Path("some/where")):
        raise OSError(number, os.strerror(number))
    assert str(caught.value).startswith("some/where: ")


@pytest.mark.parametrize("error", [ValueError("bad"), OSError(errno.EIO, "I/O error")])
def test_other_exceptions_are_not_explained_away(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, explained(Path("some/where")):
        raise error
    assert caught.value is error


def test_a_file_where_a_folder_should_be_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("old")
    with pytest.raises(StorageError, match="in the way"):
        write_text(tmp_path / "text" / "below", "new")
    assert (tmp_path / "text").read_text() == "old"


def test_a_folder_where_a_file_should_be_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    with pytest.raises(StorageError, match="in the way"):
        write_text(tmp_path / "text", "new")
    assert names(tmp_path) == ["text"]


# Locks.

HOLDING = """
import sys
from pathlib import Path
from regard.files import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_holder_is_refused_and_told_who_holds(tmp_path: Path) -> None:
    with locked(tmp_path / "run"), pytest.raises(RunError) as caught, locked(tmp_path / "run"):
        pass
    assert str(tmp_path / "run") in str(caught.value)
    assert f"pid {os.getpid()}" in str(caught.value)


@pytest.mark.parametrize("error", [None, ValueError("bad")])
def test_a_folder_is_free_again_afterwards(tmp_path: Path, error: Exception | None) -> None:
    try:
        with locked(tmp_path):
            if error:
                raise error
    except ValueError:
        pass
    entered = False
    with locked(tmp_path):
        entered = True
    assert entered


def test_the_lock_of_another_process_ends_with_its_life(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDING, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
        assert p.stdout is not None
        assert p.stdout.readline() == "held\n"
        with pytest.raises(RunError, match=f"pid {p.pid}\\b"), locked(tmp_path):
            pass
        p.kill()
        p.wait()
        entered = False
        with locked(tmp_path):
            entered = True
    assert entered


def test_a_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_text(pipe, "hello")
    assert os.read(reader, 100) == b"hello"
    os.close(reader)
    assert pipe.is_fifo()


def test_others_may_read_what_the_umask_lets_them(tmp_path: Path) -> None:
    with whole_file(tmp_path / "a") as temporary:
        temporary.touch(mode=0o600)
    old = os.umask(0o022)
    os.umask(old)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o666 & ~old
