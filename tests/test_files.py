"""Files and folders are whole or not there; what the disk says becomes a sentence."""

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
    clear_leftovers,
    explained,
    held_output,
    is_stream,
    locked,
    whole_file,
    whole_folder,
    write_json,
    write_text,
)


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


def test_files_of_users_are_not_taken_for_our_own(tmp_path: Path) -> None:
    (tmp_path / "text.partial").write_text("dear")
    (tmp_path / "store.partial").mkdir()
    (tmp_path / "store.old.partial").mkdir()
    (tmp_path / "store.partial" / "letter").write_text("dear")
    write_text(tmp_path / "text", "new")
    for name in ("first", "second"):
        put_folder(tmp_path / "store", name)
    assert names(tmp_path) == sorted(
        ["text", "text.partial", "store", "store.partial", "store.old.partial"]
    )
    assert (tmp_path / "text.partial").read_text() == "dear"
    assert (tmp_path / "store.partial" / "letter").read_text() == "dear"


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
        if self.name == "new":
            no_space()
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(StorageError):
        put_folder(path, "new")
    assert names(path) == ["old"]
    assert names(tmp_path) == ["store"]


def test_an_old_folder_that_cannot_be_brought_back_is_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store"
    put_folder(path, "old")
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if target == path:
            no_space()
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", failing)
        with pytest.raises(StorageError):
            put_folder(path, "new")
    with held_output(path):
        assert names(path) == ["old"]
    assert names(tmp_path) == ["store"]


def staging_of(place: Path, content: str) -> Path:
    """What a process leaves that is killed while it writes `place`."""
    script = "\n".join(
        [
            "import os, signal, sys",
            "from pathlib import Path",
            "from regard.files import whole_file",
            "with whole_file(Path(sys.argv[1])) as temporary:",
            "    temporary.write_text(sys.argv[2])",
            "    os.kill(os.getpid(), signal.SIGKILL)",
        ]
    )
    subprocess.run([sys.executable, "-c", script, place, content], check=False)
    [staging] = place.parent.glob(".regard-*.partial")
    return staging


def test_what_a_kill_left_is_removed_by_whoever_writes_next(tmp_path: Path) -> None:
    staging_of(tmp_path / "text", "a longer text that was never finished")
    write_text(tmp_path / "other", "new")
    assert len(names(tmp_path)) == 3  # a lock and a folder of another output stay
    write_text(tmp_path / "text", "new")
    assert names(tmp_path) == ["other", "text"]
    assert (tmp_path / "text").read_text() == "new"


@pytest.mark.parametrize("mark", [None, b"my notes"])
def test_a_folder_without_our_marker_stays(tmp_path: Path, mark: bytes | None) -> None:
    staging = staging_of(tmp_path / "text", "half")
    (staging / ".regard").unlink()
    if mark is not None:
        (staging / ".regard").write_bytes(mark)
    write_text(tmp_path / "text", "new")
    clear_leftovers(tmp_path)
    assert (staging / "new").read_text() == "half"


def test_a_marked_folder_of_another_output_stays(tmp_path: Path) -> None:
    staging = staging_of(tmp_path / "text", "half")
    (staging / ".regard").write_bytes((staging / ".regard").read_bytes() + b" and more")
    write_text(tmp_path / "text", "new")
    assert staging.exists()


def test_leftovers_of_all_outputs_in_a_folder_are_cleared(tmp_path: Path) -> None:
    staging_of(tmp_path / "text", "half")
    with held_output(tmp_path / "other"):
        clear_leftovers(tmp_path)
        assert not list(tmp_path.glob("*.partial"))
    assert names(tmp_path) == []


def test_a_folder_comes_back_after_a_kill_between_two_renames(tmp_path: Path) -> None:
    staging = staging_of(tmp_path / "store", "half")
    (staging / "old").mkdir()
    (staging / "old" / "file").write_text("old")
    with held_output(tmp_path / "store"):
        assert (tmp_path / "store" / "file").read_text() == "old"
    assert names(tmp_path) == ["store"]


def test_a_link_to_a_file_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "large-disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "large-disk" / "text")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert names(tmp_path / "large-disk") == ["text"]


@pytest.mark.parametrize("length", [200, 255])
def test_a_name_may_be_as_long_as_the_system_permits(tmp_path: Path, length: int) -> None:
    write_text(tmp_path / ("x" * length), "new")
    put_folder(tmp_path / ("y" * length), "new")
    assert [len(name) for name in names(tmp_path)] == [length, length]


def test_parents_that_are_not_needed_are_not_left(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bad"):
        begin_file(tmp_path / "a" / "b" / "text", ValueError("bad"))
    assert names(tmp_path) == []


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
    (tmp_path / "link").symlink_to("/dev/full")
    with pytest.raises(StorageError, match="the disk is full"):
        write_text(tmp_path / "link", "new")
    assert names(tmp_path) == ["link"]
    assert Path("/dev/full").is_char_device()


def test_a_full_disk_is_known_by_its_words_where_there_is_no_number(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="the disk is full"), explained(tmp_path):
        raise RuntimeError("I/O error: No space left on device (os error 28)")
    with pytest.raises(StorageError, match="larger than"), explained(tmp_path):
        raise RuntimeError("I/O error (os error 27)")
    with pytest.raises(StorageError, match="not everything could be written"), explained(tmp_path):
        raise OSError("1024 requested and 12 written")


def test_a_full_disk_is_known_as_the_cause_of_another_exception(tmp_path: Path) -> None:
    try:
        raise RuntimeError("the exporter failed") from OSError(errno.ENOSPC, "")
    except RuntimeError as error:
        failed = error
    with pytest.raises(StorageError, match="the disk is full"), explained(tmp_path):
        raise failed


def test_an_error_of_another_file_names_that_file(tmp_path: Path) -> None:
    with (
        pytest.raises(StorageError, match=r"missing: there is no such file"),
        whole_folder(tmp_path / "store") as temporary,
    ):
        (temporary / "copy").write_bytes((tmp_path / "missing").read_bytes())


def test_an_error_of_a_temporary_file_names_the_output(tmp_path: Path) -> None:
    with (
        pytest.raises(StorageError) as caught,
        whole_folder(tmp_path / "store") as temporary,
    ):
        (temporary / "missing" / "file").write_text("new")
    assert str(caught.value).startswith(f"{tmp_path / 'store'}: ")


@pytest.mark.parametrize(
    ("number", "words"),
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
def test_each_refusal_of_the_system_has_its_remedy(number: int, words: str) -> None:
    with pytest.raises(StorageError, match=words) as caught, explained(Path("some/where")):
        raise OSError(number, os.strerror(number))
    assert str(caught.value).startswith("some/where: ")


@pytest.mark.parametrize(
    "error", [ValueError("bad"), OSError("no number"), OSError(errno.EBADF, "")]
)
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
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
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


@pytest.mark.parametrize("what", ["link", "folder", "pipe", "notes"])
@pytest.mark.parametrize("hold", [locked, lambda path: held_output(path / "output")])
def test_a_lock_that_is_not_ours_is_left_alone(
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


def test_standard_output_is_a_stream_wherever_it_goes() -> None:
    script = "from regard.files import *; write_text(Path('/dev/stdout'), 'a\\n'); print('b')"
    with tempfile.TemporaryFile() as file:
        subprocess.run([sys.executable, "-c", script], stdout=file, check=True)
    assert Path("/dev/stdout").is_symlink()
    assert is_stream(Path("/dev/null"))
    assert not is_stream(Path("/dev/shm/text"))


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
