"""What to do when the operating system refuses to read or write: a sentence for each reason."""

from __future__ import annotations

import errno
import os
import re

_FULL = "the disk is full. Free some space and run the same command again."
_TOO_LARGE = (
    "the file would be larger than the system permits. Raise the limit (`ulimit -f`), or choose a "
    "disk whose file system takes larger files."
)
_FORBIDDEN = "reading or writing is not permitted. Choose another place or change the permissions."
_IN_THE_WAY = "a file or folder of that name is in the way. Choose another place for the output."
_NO_LOCKS = (
    "this file system does not support locks, which keep two processes from writing one output. "
    "Choose a place on another file system."
)
_DAMAGED = "the disk reports an error. Check the disk, or choose another place."
_GONE = "the disk or device is gone or not ready. Check that it is mounted."
_TOO_MANY = "too many files are open. Close some programs, or raise the limit (`ulimit -n`)."
_REMEDIES = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: "your disk quota is used up. Free some space and run the same command again.",
    errno.EFBIG: _TOO_LARGE,
    errno.EOVERFLOW: _TOO_LARGE,
    errno.EIO: _DAMAGED,
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
    errno.EROFS: _FORBIDDEN,
    errno.ENOENT: "there is no such file or folder. Check the path.",
    errno.ENOTDIR: _IN_THE_WAY,
    errno.EEXIST: _IN_THE_WAY,
    errno.EISDIR: _IN_THE_WAY,
    errno.ENOTEMPTY: _IN_THE_WAY,
    errno.ENAMETOOLONG: "the name is too long for the file system. Choose a shorter one.",
    errno.EILSEQ: "this file system does not take that name. Choose another one.",
    errno.ELOOP: "the path leads through a circle of links, or a link where none may be. Check it.",
    errno.EMFILE: _TOO_MANY,
    errno.ENFILE: _TOO_MANY,
    errno.EMLINK: "the folder cannot take more entries. Choose another place.",
    errno.ETXTBSY: "the file is a program that is running. Choose another place.",
    errno.EBUSY: "the file or folder is in use by the system, as a mount point is. Choose a place "
    "inside it, or another one.",
    errno.ENODEV: _GONE,
    errno.ENXIO: _GONE,
    errno.ESTALE: _GONE,
    errno.ENOTCONN: _GONE,
    errno.ETIMEDOUT: _GONE,
    errno.ENOLCK: _NO_LOCKS,
    errno.EOPNOTSUPP: _NO_LOCKS,
    errno.ENOSYS: _NO_LOCKS,
}
# Libraries report these in exceptions of their own, as the cause or in words.
_OF_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
_DEPTH = 5  # exceptions in a chain


def remedy(error: BaseException) -> str | None:
    """What to do about trouble with a disk or a path; None if it is something else."""
    number = error.errno if isinstance(error, OSError) else None
    if number in _REMEDIES:
        return _REMEDIES[number]
    # numpy's `tofile` says how much it could write, and not why it could not write more.
    if re.fullmatch(r"\d+ requested and \d+ written", str(error)):
        return "not everything could be written: the disk is full, or a limit on files is reached."
    for number in _OF_DISKS:
        if _is_about(error, number):
            return _REMEDIES[number]
    return None


def _is_about(error: BaseException | None, number: int) -> bool:
    """Whether an exception, or one that it was made of, reports an error of this number."""
    for _ in range(_DEPTH):
        if error is None:
            return False
        if isinstance(error, OSError) and error.errno == number:
            return True
        if f"(os error {number})" in str(error) or os.strerror(number) in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False
