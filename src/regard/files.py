"""Files and folders that are either whole or absent, whenever the process dies.

Everything is written in a staging folder beside its place, `.regard-DIGEST-RANDOM.partial`, flushed
to the disk and renamed once. Meanwhile the process holds `.regard-DIGEST.lock`, where DIGEST stands
for the name of the output. So no two processes write one output at a time, and a staging folder
that the holder of the lock finds was left by a process that died. A staging folder is removed only
if it has our marker: nothing that a user made is deleted.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import shutil
import stat
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from regard.errors import ConfigError, RegardError, RunError, StorageError
from regard.json_text import dumps
from regard.remedies import remedy

LOCK = "lock"  # in a run folder
_OURS = re.compile(r"\.regard-[0-9a-f]{12}(-\w+\.partial|\.lock)")
_STAGING = re.compile(r"\.regard-[0-9a-f]{12}-\w+\.partial")
_MARKER, _NEW, _OLD = ".regard", "new", "old"  # what a staging folder holds
_MARK = b"A temporary folder of regard, for "  # and the name of the output
_OWNER = re.compile(rb"pid \d+\s*")  # what a lock file holds
_held: dict[Path, int] = {}  # the outputs that a process has locked, which a fork has not


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path; when the block ends well, it becomes `path` in one step.

    A link is followed. A device or a pipe is written to directly, and never replaced.
    """
    if _is_staged(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        yield path
        path.chmod(0o666 & ~_umask())  # safetensors would keep it to its owner
        return
    if is_stream(path):
        with explained(path):
            yield path
        return
    with explained(path), held_output(path) as place, _staging(place) as staging:
        temporary = staging / _NEW
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        _flush(temporary)
        temporary.replace(place)
        _flush(place.parent)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder; when the block ends well, it becomes `path` in one step.

    A link to a folder stays a link.
    """
    with explained(path), held_output(path) as place, _staging(place) as staging:
        temporary = staging / _NEW
        temporary.mkdir()
        yield temporary
        for file in temporary.rglob("*"):
            _flush(file)
        _flush(temporary)
        if place.is_dir():  # a folder cannot replace a full one; `_remove` would bring it back
            place.rename(staging / _OLD)
        temporary.rename(place)
        _flush(place.parent)


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file, whole or not at all."""
    write_text(path, dumps(value, indent=2) + "\n")


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file as nested dictionaries."""
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise ConfigError(f"There is no recipe {path}: it {what}. Give the path of a TOML file.")
    with explained(path):
        data = path.read_bytes()
    try:
        return tomllib.loads(data.decode("utf-8-sig"))  # some editors put a byte-order mark
    except ValueError as error:  # not TOML, not UTF-8, or a number of thousands of digits
        raise ConfigError(f"{path} is not valid TOML: {error}. Correct that line.") from None
    except RecursionError:
        raise ConfigError(f"{path} is not a recipe: its values are nested too deeply.") from None


def is_stream(path: Path) -> bool:
    """Whether a path is a device, a pipe or an open file, such as /dev/stdout."""
    for _ in range(40):  # as many links as Linux follows
        if f"{os.path.realpath(path.parent)}/".startswith("/proc/"):
            return True
        if not path.is_symlink():
            break
        path = path.parent / path.readlink()
    return path.exists() and not path.is_file() and not path.is_dir()


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what the operating system says about `path` into a sentence with a remedy."""
    try:
        yield
    except Exception as error:
        advice = None if isinstance(error, RegardError) else remedy(error)
        if advice is None or _is_staged(path):  # whoever writes the whole folder explains it
            raise
        raise StorageError(f"{_subject(error, path)}: {advice}") from error


def _subject(error: Exception, path: Path) -> str:
    """The path that an error is about; our own temporary files stand for the output."""
    name = getattr(error, "filename", None)
    if not isinstance(name, str) or not name or getattr(error, "filename2", None):
        return str(path)
    return str(path) if any(map(is_leftover, (Path(name), *Path(name).parents))) else name


# Temporary folders.


@contextmanager
def _staging(place: Path) -> Iterator[Path]:
    """Yield a new folder beside an output that this process holds; it is removed afterwards."""
    staging = Path(tempfile.mkdtemp(".partial", f".regard-{_digest(place)}-", place.parent))
    try:
        (staging / _MARKER).write_bytes(_MARK + os.fsencode(place.name))
        yield staging
    finally:
        _remove(staging, place)


def _clear(place: Path) -> None:
    """Remove what processes left that died while they wrote this output."""
    for staging in place.parent.glob(f".regard-{_digest(place)}-*.partial"):
        if _output_of(staging) == place or _is_bare(staging):
            _remove(staging, place)


def _remove(staging: Path, place: Path) -> None:
    """Remove a staging folder, and its marker last, so that what a kill leaves is recognised.

    A folder that stepped aside, and whose place was not taken, comes back first.
    """
    with suppress(OSError):
        if (staging / _OLD).exists() and not place.exists():
            (staging / _OLD).rename(place)
        for path in staging.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != _MARKER:
                path.unlink()
        (staging / _MARKER).unlink(missing_ok=True)
        staging.rmdir()


def _output_of(staging: Path) -> Path | None:
    """The output that a staging folder was made for; None if this program did not make it."""
    marker = staging / _MARKER
    if not _STAGING.fullmatch(staging.name) or staging.is_symlink() or not marker.is_file():
        return None
    mark = marker.read_bytes()
    return staging.parent / os.fsdecode(mark[len(_MARK) :]) if mark.startswith(_MARK) else None


def _is_bare(staging: Path) -> bool:
    """Whether a staging folder holds nothing at all, as before its marker is written."""
    if not _STAGING.fullmatch(staging.name) or staging.is_symlink() or not staging.is_dir():
        return False
    return all(
        path.name == _MARKER and path.is_file() and not path.lstat().st_size
        for path in staging.iterdir()
    )


def clear_leftovers(folder: Path) -> None:
    """Remove what processes left in a folder that died while they wrote into it."""
    for staging in folder.glob(".regard-*.partial"):
        output = _output_of(staging)
        if output is not None:
            with suppress(StorageError), held_output(output):
                pass  # whoever holds an output has cleared it


def is_leftover(path: Path) -> bool:
    """Whether a name is that of a temporary folder or lock of this program."""
    return _OURS.fullmatch(path.name) is not None


def _is_staged(path: Path) -> bool:
    """Whether a path is inside a folder that will be renamed as a whole."""
    return any(_STAGING.fullmatch(part) for part in path.parts)


def _digest(place: Path) -> str:
    return hashlib.sha256(os.fsencode(place.name)).hexdigest()[:12]


# Locks.


@contextmanager
def held_output(path: Path) -> Iterator[Path]:
    """Hold an output for this process, and yield where it really lies, links being followed.

    A process may hold an output several times over: a command from its beginning, and within it
    whatever writes the output. Another process is refused.
    """
    place = Path(os.path.realpath(path))
    if _held.get(place) == os.getpid():
        yield place
        return
    lock = place.parent / f".regard-{_digest(place)}.lock"
    with ExitStack() as stack:
        with explained(path):
            if not place.name or is_stream(path):
                raise StorageError(
                    f"{path} is a device or the root folder, and cannot be replaced. "
                    "Choose another place for the output."
                )
            missing = [folder for folder in place.parents if not folder.exists()]
            stack.callback(_try_all, *(folder.rmdir for folder in missing))  # those that are empty
            descriptor = _locked_in_new_folder(lock, path)
            stack.callback(os.close, descriptor)
            stack.callback(_try_all, lock.unlink)  # while it is held: see `_try_lock`
            _clear(place)
        stack.callback(_held.pop, place)
        _held[place] = os.getpid()
        yield place


def _try_all(*actions: Callable[[], None]) -> None:
    """Do what the system permits."""
    for action in actions:
        with suppress(OSError):
            action()


def _locked_in_new_folder(lock: Path, path: Path) -> int:
    """Take a lock in a folder that is made; another process may remove it before that is done."""
    for _ in range(100):
        lock.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            return _locked(lock, path, StorageError)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(lock))


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder for this process; the system lets go of it when the process dies."""
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = _locked(folder / LOCK, folder, RunError)
    try:
        yield
    finally:
        os.close(descriptor)


def _locked(lock: Path, path: Path, refusal: type[RegardError]) -> int:
    """Take a lock for `path`, or say who has it."""
    while True:
        descriptor = os.open(
            lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666
        )
        with ExitStack() as stack:
            stack.callback(os.close, descriptor)
            if _try_lock(descriptor, lock, path, refusal):
                stack.pop_all()
                return descriptor


def _try_lock(descriptor: int, lock: Path, path: Path, refusal: type[RegardError]) -> bool:
    """Take the lock of an open file; False if its last holder has removed the file meanwhile."""
    status = os.fstat(descriptor)
    owner = os.pread(descriptor, 100, 0) if stat.S_ISREG(status.st_mode) else b"?"
    if owner and not _OWNER.fullmatch(owner):
        raise StorageError(
            f"{lock} is in the way: regard keeps its lock under this name, and did not make this "
            "file. Move it, or choose another place for the output."
        )
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise refusal(
            f"{path} is in use by another process ({owner.decode().strip() or 'unknown'}). "
            "Wait for it, stop it, or choose another place for the output."
        ) from None
    try:
        if not os.path.samestat(status, os.stat(lock, follow_symlinks=False)):
            return False
    except FileNotFoundError:
        return False
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"pid {os.getpid()}".encode(), 0)
    return True


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
