"""Atomic writes of files and folders, and file locks.

An output is written to a staging folder beside it, `.regard-DIGEST-RANDOM.partial`, synced to disk
and renamed, so that it is complete or absent even if the process is killed. Meanwhile the process
holds `.regard-DIGEST.lock`; DIGEST is a hash of the output's name. So only one process writes an
output at a time, and a staging folder that the holder of the lock finds is stale. A staging folder
is removed only if it contains our marker: files of the user are never deleted.
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
from regard.os_errors import os_error_advice

LOCK = "lock"  # in a run folder
_TEMPORARY = re.compile(r"\.regard-[0-9a-f]{12}(-\w+\.partial|\.lock)")
_STAGING = re.compile(r"\.regard-[0-9a-f]{12}-\w+\.partial")
_MARKER, _NEW, _OLD = ".regard", "new", "old"  # in a staging folder
_MARKER_TEXT = b"A temporary folder of regard, for "  # followed by the name of the output
_OWNER = re.compile(rb"pid \d+\s*")  # content of a lock file
_locked_outputs: dict[Path, int] = {}  # with the process id: a forked process does not hold them


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path, which is renamed to `path` if the block succeeds.

    Links are followed. Devices and pipes are written directly and never replaced.
    """
    if _is_staged(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        yield path
        path.chmod(0o666 & ~_umask())  # safetensors creates files readable by their owner only
        return
    if is_stream(path):
        with explain_os_errors(path):
            yield path
        return
    with explain_os_errors(path), locked_output(path) as output, _staging(output) as staging:
        temporary = staging / _NEW
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        _sync(temporary)
        temporary.replace(output)
        _sync(output.parent)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder, which is renamed to `path` if the block succeeds.

    A link to a folder remains a link.
    """
    with explain_os_errors(path), locked_output(path) as output, _staging(output) as staging:
        temporary = staging / _NEW
        temporary.mkdir()
        yield temporary
        for file in temporary.rglob("*"):
            _sync(file)
        _sync(temporary)
        if output.is_dir():  # rename cannot replace it; `_remove` restores it on failure
            output.rename(staging / _OLD)
        temporary.rename(output)
        _sync(output.parent)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file atomically."""
    write_text(path, dumps(value, indent=2) + "\n")


def read_toml(path: Path, noun: str = "recipe") -> dict[str, Any]:
    """A TOML file as nested dictionaries; `noun` says in errors what it should be."""
    if not path.is_file():
        problem = "is a folder" if path.is_dir() else "does not exist"
        raise ConfigError(f"The {noun} {path} {problem}. Give the path of a TOML file.")
    with explain_os_errors(path):
        data = path.read_bytes()
    try:
        return tomllib.loads(data.decode("utf-8-sig"))  # some editors write a byte-order mark
    except ValueError as error:  # not TOML, not UTF-8, or an integer with thousands of digits
        raise ConfigError(f"{path} is not valid TOML: {error}. Correct that line.") from None
    except RecursionError:
        raise ConfigError(
            f"{path} is not a {noun}: its values are nested too deeply. Check the path."
        ) from None


def is_stream(path: Path) -> bool:
    """Whether a path is a device, a pipe or an open file descriptor, such as /dev/stdout."""
    for _ in range(40):  # as many links as Linux follows
        if f"{os.path.realpath(path.parent)}/".startswith("/proc/"):
            return True
        if not path.is_symlink():
            break
        path = path.parent / path.readlink()
    return path.exists() and not path.is_file() and not path.is_dir()


@contextmanager
def explain_os_errors(path: Path) -> Iterator[None]:
    """Convert errors of the operating system about `path` to a `StorageError` with advice."""
    try:
        yield
    except Exception as error:
        advice = None if isinstance(error, RegardError) else os_error_advice(error)
        if advice is None or _is_staged(path):  # explained where the whole folder is written
            raise
        raise StorageError(f"{_subject(error, path)}: {advice}") from error


def _subject(error: Exception, path: Path) -> str:
    """The path that an error is about: the output itself if it is a temporary file of it."""
    name = getattr(error, "filename", None)
    if not isinstance(name, str) or not name or getattr(error, "filename2", None):
        return str(path)
    return str(path) if any(map(is_temporary_path, (Path(name), *Path(name).parents))) else name


# Staging folders.


@contextmanager
def _staging(output: Path) -> Iterator[Path]:
    """Yield a new folder beside an output that this process has locked; removed afterwards."""
    staging = Path(tempfile.mkdtemp(".partial", f".regard-{_digest(output)}-", output.parent))
    try:
        (staging / _MARKER).write_bytes(_MARKER_TEXT + os.fsencode(output.name))
        yield staging
    finally:
        _remove(staging, output)


def _remove_stale(output: Path) -> None:
    """Remove staging folders of killed processes that were writing this output."""
    for staging in output.parent.glob(f".regard-{_digest(output)}-*.partial"):
        if _output_of(staging) == output or _is_empty(staging):
            _remove(staging, output)


def _remove(staging: Path, output: Path) -> None:
    """Remove a staging folder, its marker last, so that a killed removal can be completed.

    An old output that was moved aside and not replaced is restored first.
    """
    with suppress(OSError):
        if (staging / _OLD).exists() and not output.exists():
            (staging / _OLD).rename(output)
        for path in staging.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != _MARKER:
                path.unlink()
        (staging / _MARKER).unlink(missing_ok=True)
        staging.rmdir()


def _output_of(staging: Path) -> Path | None:
    """The output of a staging folder; None if regard did not create the folder."""
    marker = staging / _MARKER
    if not _STAGING.fullmatch(staging.name) or staging.is_symlink() or not marker.is_file():
        return None
    content = marker.read_bytes()
    return (
        staging.parent / os.fsdecode(content[len(_MARKER_TEXT) :])
        if content.startswith(_MARKER_TEXT)
        else None
    )


def _is_empty(staging: Path) -> bool:
    """Whether a staging folder is empty, as before its marker is written."""
    if not _STAGING.fullmatch(staging.name) or staging.is_symlink() or not staging.is_dir():
        return False
    return all(
        path.name == _MARKER and path.is_file() and not path.lstat().st_size
        for path in staging.iterdir()
    )


def remove_stale_staging(folder: Path) -> None:
    """Remove staging folders and lock files of killed processes in a folder."""
    for staging in folder.glob(".regard-*.partial"):
        output = _output_of(staging)
        if output is not None:
            with suppress(StorageError), locked_output(output):
                pass  # locking an output removes its stale staging folders
    for lock in folder.glob(".regard-*.lock"):
        if is_temporary_path(lock):
            with suppress(StorageError, OSError):  # a process holds it, or it is not a lock
                descriptor = _lock(lock, lock, StorageError)
                _try_all(lock.unlink)
                os.close(descriptor)


def is_temporary_path(path: Path) -> bool:
    """Whether a path has the name of a staging folder or lock file of regard."""
    return _TEMPORARY.fullmatch(path.name) is not None


def _is_staged(path: Path) -> bool:
    """Whether a path is inside a staging folder."""
    return any(_STAGING.fullmatch(part) for part in path.parts)


def _digest(output: Path) -> str:
    return hashlib.sha256(os.fsencode(output.name)).hexdigest()[:12]


# Locks.


@contextmanager
def locked_output(path: Path) -> Iterator[Path]:
    """Lock an output for this process, and yield its real path, with links resolved.

    The lock is reentrant: a command locks its output at the start, and the functions that write it
    lock it again. Another process gets an error.
    """
    output = Path(os.path.realpath(path))
    if _locked_outputs.get(output) == os.getpid():
        yield output
        return
    lock = output.parent / f".regard-{_digest(output)}.lock"
    with ExitStack() as stack:
        with explain_os_errors(path):
            if not output.name or is_stream(path):
                raise StorageError(
                    f"{path} is a device or the root folder, and cannot be replaced. "
                    "Choose another location for the output."
                )
            missing = [folder for folder in output.parents if not folder.exists()]
            stack.callback(_try_all, *(folder.rmdir for folder in missing))  # if empty
            descriptor = _create_and_lock(lock, path)
            stack.callback(os.close, descriptor)
            stack.callback(_try_all, lock.unlink)  # while locked: see `_try_lock`
            _remove_stale(output)
        stack.callback(_locked_outputs.pop, output)
        _locked_outputs[output] = os.getpid()
        yield output


def _try_all(*actions: Callable[[], None]) -> None:
    """Call all functions, ignoring errors of the operating system."""
    for action in actions:
        with suppress(OSError):
            action()


def _create_and_lock(lock: Path, path: Path) -> int:
    """Lock a file whose folder is created; retries if another process removes the folder."""
    for _ in range(100):
        lock.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            return _lock(lock, path, StorageError)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(lock))


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Lock a folder for this process; the system releases the lock when the process ends."""
    with explain_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = _lock(folder / LOCK, folder, RunError)
    try:
        yield
    finally:
        os.close(descriptor)


def _lock(lock: Path, path: Path, error: type[RegardError]) -> int:
    """Lock the file `lock` and return its descriptor; an error names the process that holds it."""
    while True:
        descriptor = os.open(
            lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666
        )
        with ExitStack() as stack:
            stack.callback(os.close, descriptor)
            if _try_lock(descriptor, lock, path, error):
                stack.pop_all()
                return descriptor


def _try_lock(descriptor: int, lock: Path, path: Path, error: type[RegardError]) -> bool:
    """Lock an open file; False if its last holder has removed the file meanwhile."""
    status = os.fstat(descriptor)
    owner = os.pread(descriptor, 100, 0) if stat.S_ISREG(status.st_mode) else b"?"
    if owner and not _OWNER.fullmatch(owner):
        raise StorageError(
            f"{lock} is in the way: regard uses this name for its lock, but did not create this "
            "file. Move it, or choose another location for the output."
        )
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise error(
            f"{path} is in use by another process ({owner.decode().strip() or 'unknown'}). "
            "Wait for it, stop it, or choose another location for the output."
        ) from None
    try:
        if not os.path.samestat(status, os.stat(lock, follow_symlinks=False)):
            return False
    except FileNotFoundError:
        return False
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"pid {os.getpid()}".encode(), 0)
    except OSError:  # such as a full disk
        _try_all(lock.unlink)  # while locked
        raise
    return True


def _umask() -> int:
    """The umask of the process, which can be read only by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _sync(path: Path) -> None:
    """Write a file or folder through to the disk (fsync)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
