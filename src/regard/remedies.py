"""What to do when the operating system refuses to read or write: a sentence for each reason."""

from __future__ import annotations

import errno
import os
import re

_REMEDIES = {
    getattr(errno, name): text
    for names, text in {
        "ENOSPC": "the disk is full. Free some space and run the same command again.",
        "EDQUOT": "your disk quota is used up. Free some space and run the same command again.",
        "EFBIG EOVERFLOW": "the file would be larger than the system permits. Raise the limit "
        "(`ulimit -f`), or choose a disk whose file system takes larger files.",
        "EIO": "the disk reports an error. Check the disk, or choose another place.",
        "EACCES EPERM EROFS": "reading or writing is not permitted. Choose another place or change "
        "the permissions.",
        "ENOENT": "there is no such file or folder. Check the path.",
        "ENOTDIR EEXIST EISDIR ENOTEMPTY": "a file or folder of that name is in the way. Choose "
        "another place for the output.",
        "ENAMETOOLONG": "the name is too long for the file system. Choose a shorter one.",
        "EILSEQ": "this file system does not take that name. Choose another one.",
        "ELOOP": "the path leads through a circle of links, or a link where none may be. Check it.",
        "EMFILE ENFILE": "too many files are open. Close some programs, or raise the limit "
        "(`ulimit -n`).",
        "EMLINK": "the folder cannot take more entries. Choose another place.",
        "ETXTBSY": "the file is a program that is running. Choose another place.",
        "EBUSY": "the file or folder is in use by the system, as a mount point is. Choose a place "
        "inside it, or another one.",
        "ENODEV ENXIO ESTALE ENOTCONN ETIMEDOUT": "the disk or device is gone or not ready. Check "
        "that it is mounted.",
        "ENOLCK EOPNOTSUPP ENOSYS": "this file system does not support locks, which keep two "
        "processes from writing one output. Choose a place on another file system.",
    }.items()
    for name in names.split()
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
