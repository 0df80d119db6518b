"""Atomic writes, locks, and messages for errors of the operating system."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from regard.errors import RunError, StorageError
from regard.files import (
    atomic_file,
    atomic_folder,
    explain_os_errors,
    is_stream,
    locked_folder,
    locked_output,
    remove_stale_staging,
    write_json,
    write_text,
)


class Interruption(BaseException):
    """An exception that `except Exception` does not catch, like Ctrl-C."""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def no_space(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def fail_writing_file(path: Path, error: BaseException) -> None:
    with atomic_file(path) as temporary:
        temporary.write_text("half")
        raise error


def fail_writing_folder(path: Path, error: BaseException) -> None:
    with atomic_folder(path) as temporary:
        (temporary / "new").write_text("half")
        raise error


def write_folder(path: Path, name: str) -> None:
    with atomic_folder(path) as temporary:
        (temporary / name).write_text(name)


# Files.


def test_file_is_written_with_its_parent_folders(tmp_path: Path) -> None:
    write_text(tmp_path / "a" / "b" / "text", "whole\n")
    assert (tmp_path / "a" / "b" / "text").read_text() == "whole\n"
    assert names(tmp_path / "a" / "b") == ["text"]


def test_old_file_is_kept_until_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("old")
    with atomic_file(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"


def test_open_readers_keep_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("old")
    with path.open() as reader:
        write_text(path, "new")
        assert reader.read() == "old"


@pytest.mark.parametrize("error", [ValueError("bad"), Interruption()])
def test_exception_keeps_the_old_file(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "text"
    path.write_text("old")
    with pytest.raises(type(error)):
        fail_writing_file(path, error)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["text"]


def test_exception_leaves_no_new_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bad"):
        fail_writing_file(tmp_path / "text", ValueError("bad"))
    assert names(tmp_path) == []


def test_files_of_users_are_not_temporary(tmp_path: Path) -> None:
    (tmp_path / "text.partial").write_text("dear")
    (tmp_path / "store.partial").mkdir()
    (tmp_path / "store.old.partial").mkdir()
    (tmp_path / "store.partial" / "letter").write_text("dear")
    write_text(tmp_path / "text", "new")
    for name in ("first", "second"):
        write_folder(tmp_path / "store", name)
    assert names(tmp_path) == sorted(
        ["text", "text.partial", "store", "store.partial", "store.old.partial"]
    )
    assert (tmp_path / "text.partial").read_text() == "dear"
    assert (tmp_path / "store.partial" / "letter").read_text() == "dear"


def test_json_is_written_without_ascii_escapes(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", {"text": "Straße 我爱你"})
    written = (tmp_path / "x.json").read_text(encoding="utf-8")
    assert json.loads(written) == {"text": "Straße 我爱你"}
    assert "Straße 我爱你" in written


# Folders.


def test_folder_is_written_completely(tmp_path: Path) -> None:
    with atomic_folder(tmp_path / "a" / "store") as temporary:
        (temporary / "deep").mkdir()
        (temporary / "deep" / "file").write_text("x")
        assert not (tmp_path / "a" / "store").exists()
    assert (tmp_path / "a" / "store" / "deep" / "file").read_text() == "x"
    assert names(tmp_path / "a") == ["store"]


def test_new_folder_replaces_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "store"
    for name in ("old", "new"):
        write_folder(path, name)
    assert names(path) == ["new"]
    assert names(tmp_path) == ["store"]


@pytest.mark.parametrize("error", [ValueError("bad"), Interruption()])
def test_exception_keeps_the_old_folder(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "store"
    path.mkdir()
    (path / "old").write_text("old")
    with pytest.raises(type(error)):
        fail_writing_folder(path, error)
    assert names(path) == ["old"]
    assert names(tmp_path) == ["store"]


def test_exception_leaves_no_new_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bad"):
        fail_writing_folder(tmp_path / "store", ValueError("bad"))
    assert names(tmp_path) == []


def test_failed_rename_restores_the_old_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store"
    path.mkdir()
    (path / "old").write_text("old")
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self.name == "new":
            no_space()
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(StorageError):
        write_folder(path, "new")
    assert names(path) == ["old"]
    assert names(tmp_path) == ["store"]


def test_old_folder_that_cannot_be_restored_is_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store"
    write_folder(path, "old")
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if target == path:
            no_space()
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", failing)
        with pytest.raises(StorageError):
            write_folder(path, "new")
    with locked_output(path):
        assert names(path) == ["old"]
    assert names(tmp_path) == ["store"]


def staging_of(output: Path, content: str) -> Path:
    """The staging folder of a process that was killed while it wrote `output`."""
    script = "\n".join(
        [
            "import os, signal, sys",
            "from pathlib import Path",
            "from regard.files import atomic_file",
            "with atomic_file(Path(sys.argv[1])) as temporary:",
            "    temporary.write_text(sys.argv[2])",
            "    os.kill(os.getpid(), signal.SIGKILL)",
        ]
    )
    subprocess.run([sys.executable, "-c", script, output, content], check=False)
    [staging] = output.parent.glob(".regard-*.partial")
    return staging


def test_next_writer_removes_stale_staging_folders(tmp_path: Path) -> None:
    staging_of(tmp_path / "text", "a longer text that was never finished")
    write_text(tmp_path / "other", "new")
    assert len(names(tmp_path)) == 3  # a lock and a folder of another output are kept
    write_text(tmp_path / "text", "new")
    assert names(tmp_path) == ["other", "text"]
    assert (tmp_path / "text").read_text() == "new"


@pytest.mark.parametrize("mark", [None, b"my notes"])
def test_folder_without_our_marker_is_kept(tmp_path: Path, mark: bytes | None) -> None:
    staging = staging_of(tmp_path / "text", "half")
    (staging / ".regard").unlink()
    if mark is not None:
        (staging / ".regard").write_bytes(mark)
    write_text(tmp_path / "text", "new")
    remove_stale_staging(tmp_path)
    assert (staging / "new").read_text() == "half"


def test_staging_folder_of_another_output_is_kept(tmp_path: Path) -> None:
    staging = staging_of(tmp_path / "text", "half")
    (staging / ".regard").write_bytes((staging / ".regard").read_bytes() + b" and more")
    write_text(tmp_path / "text", "new")
    assert staging.exists()


def test_stale_staging_folders_of_all_outputs_are_removed(tmp_path: Path) -> None:
    staging_of(tmp_path / "text", "half")
    with locked_output(tmp_path / "other"):
        remove_stale_staging(tmp_path)
        assert not list(tmp_path.glob("*.partial"))
    assert names(tmp_path) == []


def test_stale_lock_files_are_removed(tmp_path: Path) -> None:
    stale, foreign = tmp_path / f".regard-{'0' * 12}.lock", tmp_path / f".regard-{'1' * 12}.lock"
    stale.write_text("pid 1")
    foreign.write_text("my notes")
    with locked_output(tmp_path / "other"):
        held = {*tmp_path.glob(".regard-*.lock")} - {stale, foreign}
        assert len(held) == 1
        remove_stale_staging(tmp_path)
        assert {*tmp_path.iterdir()} == held | {foreign}


def test_folder_is_restored_after_a_kill_between_two_renames(tmp_path: Path) -> None:
    staging = staging_of(tmp_path / "store", "half")
    (staging / "old").mkdir()
    (staging / "old" / "file").write_text("old")
    with locked_output(tmp_path / "store"):
        assert (tmp_path / "store" / "file").read_text() == "old"
    assert names(tmp_path) == ["store"]


def test_link_to_a_file_remains_a_link(tmp_path: Path) -> None:
    (tmp_path / "large-disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "large-disk" / "text")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert names(tmp_path / "large-disk") == ["text"]


@pytest.mark.parametrize("length", [200, 255])
def test_names_may_have_the_maximum_length(tmp_path: Path, length: int) -> None:
    write_text(tmp_path / ("x" * length), "new")
    write_folder(tmp_path / ("y" * length), "new")
    assert [len(name) for name in names(tmp_path)] == [length, length]


def test_unneeded_parent_folders_are_removed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bad"):
        fail_writing_file(tmp_path / "a" / "b" / "text", ValueError("bad"))
    assert names(tmp_path) == []


def test_link_to_a_folder_remains_a_link(tmp_path: Path) -> None:
    (tmp_path / "large-disk" / "store").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "large-disk" / "store")
    write_folder(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert names(tmp_path / "large-disk" / "store") == ["new"]
    assert names(tmp_path) == ["large-disk", "link"]


KILLED_WRITER = """
import os, signal, sys
from pathlib import Path
from regard.files import atomic_file, atomic_folder
with atomic_folder(Path(sys.argv[1])) as folder, atomic_file(Path(sys.argv[2])) as file:
    (folder / "new").write_text("half")
    file.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_killed_writer_keeps_the_old_outputs(tmp_path: Path) -> None:
    folder, file = tmp_path / "store", tmp_path / "text"
    folder.mkdir()
    (folder / "old").write_text("old")
    file.write_text("old")
    process = subprocess.run([sys.executable, "-c", KILLED_WRITER, folder, file], check=False)
    assert process.returncode == -signal.SIGKILL
    assert names(folder) == ["old"]
    assert file.read_text() == "old"
    write_folder(folder, "new")
    write_text(file, "new")
    assert names(folder) == ["new"]
    assert names(tmp_path) == ["store", "text"]


# Errors of the operating system.


def test_full_disk_error_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "text"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(StorageError, match="the disk is full") as caught:
        write_text(path, "new")
    assert str(path) in str(caught.value)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["text"]


def test_full_disk_error_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(StorageError, match="the disk is full") as caught:
        write_folder(tmp_path / "store", "new")
    assert str(tmp_path / "store") in str(caught.value)
    assert names(tmp_path) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_full_device_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/dev/full")
    with pytest.raises(StorageError, match="the disk is full"):
        write_text(tmp_path / "link", "new")
    assert names(tmp_path) == ["link"]
    assert Path("/dev/full").is_char_device()


def test_full_disk_is_recognized_by_the_message(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="the disk is full"), explain_os_errors(tmp_path):
        raise RuntimeError("I/O error: No space left on device (os error 28)")
    with pytest.raises(StorageError, match="larger than"), explain_os_errors(tmp_path):
        raise RuntimeError("I/O error (os error 27)")
    with (
        pytest.raises(StorageError, match="not everything could be written"),
        explain_os_errors(tmp_path),
    ):
        raise OSError("1024 requested and 12 written")


def test_full_disk_is_recognized_as_the_cause_of_another_exception(tmp_path: Path) -> None:
    try:
        raise RuntimeError("the exporter failed") from OSError(errno.ENOSPC, "")
    except RuntimeError as error:
        failed = error
    with pytest.raises(StorageError, match="the disk is full"), explain_os_errors(tmp_path):
        raise failed


def test_error_about_another_file_names_that_file(tmp_path: Path) -> None:
    with (
        pytest.raises(StorageError, match=r"missing: there is no such file"),
        atomic_folder(tmp_path / "store") as temporary,
    ):
        (temporary / "copy").write_bytes((tmp_path / "missing").read_bytes())


def test_error_about_a_temporary_file_names_the_output(tmp_path: Path) -> None:
    with (
        pytest.raises(StorageError) as caught,
        atomic_folder(tmp_path / "store") as temporary,
    ):
        (temporary / "missing" / "file").write_text("new")
    assert str(caught.value).startswith(f"{tmp_path / 'store'}: ")


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.ENOSPC, "Free some space"),
        (errno.EDQUOT, "quota"),
        (errno.EACCES, "change the permissions"),
        (errno.EPERM, "change the permissions"),
        (errno.EROFS, "change the permissions"),
        (errno.EISDIR, "in the way"),
        (errno.ENOTDIR, "in the way"),
        (errno.EEXIST, "in the way"),
        (errno.ENOTEMPTY, "in the way"),
        (errno.EFBIG, "larger than the system permits"),
        (errno.EIO, "Check the disk"),
        (errno.ENAMETOOLONG, "shorter"),
        (errno.ELOOP, "links"),
        (errno.EMFILE, "ulimit -n"),
        (errno.ETXTBSY, "program that is running"),
        (errno.EBUSY, "mount point"),
        (errno.ENOLCK, "does not support locks"),
    ],
)
def test_each_error_of_the_system_has_its_advice(number: int, message: str) -> None:
    with (
        pytest.raises(StorageError, match=message) as caught,
        explain_os_errors(Path("some/where")),
    ):
        raise OSError(number, os.strerror(number))
    assert str(caught.value).startswith("some/where: ")


@pytest.mark.parametrize(
    "error", [ValueError("bad"), OSError("no number"), OSError(errno.EBADF, "")]
)
def test_other_exceptions_are_not_converted(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, explain_os_errors(Path("some/where")):
        raise error
    assert caught.value is error


def test_file_in_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("old")
    with pytest.raises(StorageError, match="in the way"):
        write_text(tmp_path / "text" / "below", "new")
    assert (tmp_path / "text").read_text() == "old"


def test_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    with pytest.raises(StorageError, match="in the way"):
        write_text(tmp_path / "text", "new")
    assert names(tmp_path) == ["text"]


# Locks.

LOCK_HOLDER = """
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from regard.files import locked_folder
with locked_folder(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_second_lock_is_refused_with_the_process_id(tmp_path: Path) -> None:
    with (
        locked_folder(tmp_path / "run"),
        pytest.raises(RunError) as caught,
        locked_folder(tmp_path / "run"),
    ):
        pass
    assert str(tmp_path / "run") in str(caught.value)
    assert f"pid {os.getpid()}" in str(caught.value)


@pytest.mark.parametrize("error", [None, ValueError("bad")])
def test_lock_is_released_afterwards(tmp_path: Path, error: Exception | None) -> None:
    try:
        with locked_folder(tmp_path):
            if error:
                raise error
    except ValueError:
        pass
    entered = False
    with locked_folder(tmp_path):
        entered = True
    assert entered


def test_lock_is_released_when_its_process_ends(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LOCK_HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
        assert p.stdout is not None
        assert p.stdout.readline() == "held\n"
        with pytest.raises(RunError, match=f"pid {p.pid}\\b"), locked_folder(tmp_path):
            pass
        p.kill()
        p.wait()
        entered = False
        with locked_folder(tmp_path):
            entered = True
    assert entered


@pytest.mark.parametrize("what", ["link", "folder", "pipe", "notes"])
@pytest.mark.parametrize("hold", [locked_folder, lambda path: locked_output(path / "output")])
def test_lock_file_of_others_is_not_changed(
    tmp_path: Path, what: str, hold: Callable[[Path], AbstractContextManager[object]]
) -> None:
    with hold(tmp_path):
        [name] = names(tmp_path)
    lock = tmp_path / name
    lock.unlink(missing_ok=True)
    (tmp_path / "letter").write_text("dear")
    if what == "link":
        lock.symlink_to(tmp_path / "letter")
    elif what == "folder":
        lock.mkdir()
    elif what == "pipe":
        os.mkfifo(lock)
    else:
        lock.write_text("dear")
    with pytest.raises(StorageError), hold(tmp_path):
        pass
    assert names(tmp_path) == sorted([name, "letter"])
    assert (tmp_path / "letter").read_text() == "dear"


def test_standard_output_is_a_stream_even_if_redirected() -> None:
    script = "from regard.files import *; write_text(Path('/dev/stdout'), 'a\\n'); print('b')"
    with tempfile.TemporaryFile() as file:
        subprocess.run([sys.executable, "-c", script], stdout=file, check=True)
    assert Path("/dev/stdout").is_symlink()
    assert is_stream(Path("/dev/null"))
    assert not is_stream(Path("/dev/shm/text"))


def test_device_is_written_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_text(pipe, "hello")
    assert os.read(reader, 100) == b"hello"
    os.close(reader)
    assert pipe.is_fifo()


def test_file_modes_follow_the_umask(tmp_path: Path) -> None:
    with atomic_file(tmp_path / "a") as temporary:
        temporary.touch(mode=0o600)
    old = os.umask(0o022)
    os.umask(old)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o666 & ~old
