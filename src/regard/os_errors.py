"""Advice for errors of the operating system when files are read or written."""

from __future__ import annotations

import errno
import os
import re

_ADVICE = {
    getattr(errno, name): text
    for names, text in {
        "ENOSPC": "the disk is full. Free some space and run the same command again.",
        "EDQUOT": "your disk quota is used up. Free some space and run the same command again.",
        "EFBIG EOVERFLOW": "the file would be larger than the system permits. Raise the limit "
        "(`ulimit -f`), or choose a disk whose file system supports larger files.",
        "EIO": "the disk reports an error. Check the disk, or choose another location.",
        "EACCES EPERM EROFS": "reading or writing is not permitted. Choose another location or "
        "change the permissions.",
        "ENOENT": "there is no such file or folder. Check the path.",
        "ENOTDIR EEXIST EISDIR ENOTEMPTY": "a file or folder of that name is in the way. Choose "
        "another location for the output.",
        "ENAMETOOLONG": "the name is too long for the file system. Choose a shorter one.",
        "EILSEQ": "this file system does not support that name. Choose another one.",
        "ELOOP": "the path has a loop of links, or a link where none is allowed. Check it.",
        "EMFILE ENFILE": "too many files are open. Close some programs, or raise the limit "
        "(`ulimit -n`).",
        "EMLINK": "the folder cannot hold more entries. Choose another location.",
        "ETXTBSY": "the file is a program that is running. Choose another location.",
        "EBUSY": "the file or folder is in use by the system, as a mount point is. Choose a folder "
        "inside it, or another one.",
        "ENODEV ENXIO ESTALE ENOTCONN ETIMEDOUT": "the disk or device is gone or not ready. Check "
        "that it is mounted.",
        "ENOLCK EOPNOTSUPP ENOSYS": "this file system does not support locks, which keep two "
        "processes from writing one output. Choose a folder on another file system.",
    }.items()
    for name in names.split()
}
# Libraries wrap these in other exceptions, as the cause or in the message.
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
_MAX_CHAIN = 5  # exceptions


def os_error_advice(error: BaseException) -> str | None:
    """The cause of an error of the operating system and what to do; None for other errors."""
    number = error.errno if isinstance(error, OSError) else None
    if number in _ADVICE:
        return _ADVICE[number]
    # numpy's `tofile` reports how much was written, but not the cause.
    if re.fullmatch(r"\d+ requested and \d+ written", str(error)):
        return "not everything could be written: the disk is full, or a limit on files is reached."
    for number in _DISK_ERRORS:
        if _caused_by(error, number):
            return _ADVICE[number]
    return None


def _caused_by(error: BaseException | None, number: int) -> bool:
    """Whether an exception, or one in its chain of causes, has this error number."""
    for _ in range(_MAX_CHAIN):
        if error is None:
            return False
        if isinstance(error, OSError) and error.errno == number:
            return True
        if f"(os error {number})" in str(error) or os.strerror(number) in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False
