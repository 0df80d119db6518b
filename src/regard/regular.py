"""Read regular files only, inside the folder they belong to.

A named pipe in place of a file would block for ever, a device could return anything, and a name
like `../secret` that stands in a file would lead out of its folder. Symbolic links to regular files
are followed: the cache of HuggingFace's hub is made of them.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from io import BufferedReader
from pathlib import Path, PurePosixPath

from regard.errors import ModelError, StorageError

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading; anything else is refused without waiting for it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise StorageError(f"{path} cannot be read: {reason}. Check the path.") from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise StorageError(f"{path} is {kind}, and must be a regular file. Put the file there.")
    return os.fdopen(descriptor, "rb")


def read_regular(path: Path, limit: int | None = None) -> bytes:
    """The bytes of a regular file of at most `limit` bytes."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if limit is not None and size > limit:
            raise StorageError(
                f"{path} has {size:,} bytes, and at most {limit:,} are read. Check what it is."
            )
        try:
            return file.read()
        except OSError as error:
            raise StorageError(f"{path} cannot be read: {error.strerror}.") from None


def file_digest(path: Path) -> str:
    """The SHA-256 of a regular file, read block by block."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint(contents: Iterable[bytes]) -> str:
    """One short text that differs when any of the contents does."""
    digests = (hashlib.sha256(content).digest() for content in contents)
    return hashlib.sha256(b"".join(digests)).hexdigest()[:32]


def inside(folder: Path, name: str, origin: Path) -> Path:
    """The path of a file in a folder, whose name stands in the file `origin`."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\0" in name or "\\" in name:
        raise ModelError(
            f"{origin} names the file {name!r}, which is outside {folder}. Only files inside the "
            "folder are read. Copy the whole folder again."
        )
    return folder / name
