"""Files and folders that are either whole or not there, whenever the process dies.

Everything is written under a temporary name beside its place, flushed to the disk and renamed
once. A leftover temporary (after a kill) is recognised by its name and removed by the next writer.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from regard.errors import RunError, StorageError
from regard.json_text import dumps

_TEMPORARY = ".partial"


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path; when the block ends well, it becomes `path` in one step."""
    if path.exists() and not path.is_file() and not path.is_dir():
        with explained(path):
            yield path  # a device or a pipe is written to, and never replaced
        return
    temporary = path.with_name(path.name + _TEMPORARY)
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            temporary.chmod(0o666 & ~_umask())  # safetensors would keep it to its owner
            _flush(temporary)
            temporary.replace(path)
            _flush(path.parent)
        except BaseException:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder; when the block ends well, it becomes `path` in one step."""
    place = path.resolve()  # a link to a folder stays a link
    temporary = place.with_name(place.name + _TEMPORARY)
    with explained(path):
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        try:
            yield temporary
            for file in temporary.rglob("*"):
                _flush(file)
            _flush(temporary)
            _put_in_place(temporary, place)
            _flush(place.parent)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def _put_in_place(temporary: Path, path: Path) -> None:
    """Rename; a folder in the way steps aside first, since a folder cannot replace a full one."""
    old = path.with_name(path.name + ".old" + _TEMPORARY)
    if path.exists():
        shutil.rmtree(old, ignore_errors=True)
        path.rename(old)
    try:
        temporary.rename(path)
    except BaseException:
        if old.exists():
            old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def require_free(path: Path) -> None:
    """Refuse to write where something is; an empty folder is nothing."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise StorageError(f"{path} exists, so it is left as it is. Choose another --out.")


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file, whole or not at all."""
    write_text(path, dumps(value, indent=2) + "\n")


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what the operating system says about `path` into a sentence with a remedy."""
    try:
        yield
    except Exception as error:
        advice = remedy(error)
        if advice is None:
            raise
        raise StorageError(f"{path}: {advice}") from error


def remedy(error: Exception) -> str | None:
    """What to do about trouble with a disk or a path; None if it is something else."""
    number = error.errno if isinstance(error, OSError) else None
    # safetensors reports a full disk as an exception of its own, without an errno.
    if number in (errno.ENOSPC, errno.EDQUOT) or "No space left on device" in str(error):
        return (
            "the disk is full. Nothing half-written is left; "
            "free some space and run the same command again."
        )
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return (
            "reading or writing is not permitted. Choose another place or change the permissions."
        )
    if number == errno.ENAMETOOLONG:
        return "the name is too long for the file system. Choose a shorter one."
    if number == errno.ENOENT:
        return "there is no such file or folder. Check the path."
    if number in (errno.ENOTDIR, errno.EEXIST, errno.EISDIR):
        return "a file or folder of that name is in the way. Choose another place for the output."
    return None


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder for this process; the system lets go of it when the process dies."""
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("a+")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            raise RunError(
                f"{folder} is in use by another process ({lock.read().strip() or 'unknown'}). "
                "Wait for it, stop it, or choose another folder with --out."
            ) from None
        lock.seek(0)
        lock.truncate()
        lock.write(f"pid {os.getpid()}")
        lock.flush()
        yield


def _umask() -> int:
    """What new files do not permit; the only way to ask is to set it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _flush(path: Path) -> None:
    """Make the system put a file's or folder's bytes on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
