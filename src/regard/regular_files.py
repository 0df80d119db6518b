"""Read regular files only, and only inside the folder that they belong to.

Opening a named pipe would block forever, a device could return anything, and a file name such as
`../secret` inside a config file would lead out of its folder. Symbolic links to regular files are
followed: the cache of the HuggingFace hub consists of them.
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


def open_regular_file(path: Path) -> BufferedReader:
    """Open a regular file for reading; anything else raises a `StorageError` without blocking."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise StorageError(f"{path} cannot be read: {reason}. Check the path.") from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise StorageError(f"{path} is {kind}, but must be a regular file. Check the path.")
    return os.fdopen(descriptor, "rb")


def read_regular_file(path: Path, limit: int | None = None) -> bytes:
    """The contents of a regular file of at most `limit` bytes."""
    with open_regular_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if limit is not None and size > limit:
            raise StorageError(
                f"{path} has {size:,} bytes, but must have at most {limit:,}. Check the file."
            )
        try:
            return file.read()
        except OSError as error:
            raise StorageError(f"{path} cannot be read: {error.strerror}.") from None


def file_digest(path: Path) -> str:
    """The SHA-256 of a regular file, as hexadecimal digits."""
    with open_regular_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint(contents: Iterable[bytes]) -> str:
    """A short digest of several byte strings, in order."""
    digests = (hashlib.sha256(content).digest() for content in contents)
    return hashlib.sha256(b"".join(digests)).hexdigest()[:32]


def path_inside(folder: Path, name: str, named_in: Path) -> Path:
    """The path of a file in a folder; its name is untrusted and comes from the file `named_in`."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\0" in name or "\\" in name:
        raise ModelError(
            f"{named_in} names the file {name!r}, which is outside {folder}. Only files inside the "
            "folder are read. Copy the whole folder again."
        )
    return folder / name
