"""The standard streams of the command: output that is written or refused, notices that may be lost.

Python discards output silently when standard output is closed, and fails in `print` when standard
error is full. Here every byte of standard output is written or the command fails, and standard
error never stops the work.
"""

from __future__ import annotations

import errno
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import Any

from regard.errors import OutputError

_INPUT, _OUTPUT, _ERROR = 0, 1, 2  # file descriptors


class _Stream(FileIO):
    """A descriptor; writing waits where it would block, and stops after the first failure."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._failed = False

    def write(self, data: Any, /) -> int:
        """The number of bytes that were written, or discarded after a failure."""
        while not self._failed:
            try:
                written: int | None = super().write(data)
            except OSError as error:
                self._failed = True
                self.refuse(error)
            else:
                if written is not None:
                    return written
                select.select([], [self], [])  # a pipe that does not block is full
        return memoryview(data).nbytes

    def refuse(self, error: OSError) -> None:
        """Called once, at the first failure; nothing else is written."""


class _Output(_Stream):
    """Standard output: a failure is an error of the command."""

    def refuse(self, error: OSError) -> None:
        """Raise what happened; not an `OSError`, which typer would handle by itself."""
        raise output_error(error) from error


class _ClosedOutput(_Stream):
    """Standard output that was closed from the start; writing nothing is no failure."""

    def write(self, data: Any, /) -> int:
        """Refuse it, once."""
        if not self._failed:
            self._failed = True
            raise OutputError(
                "Standard output is closed, so there is no place for the output. Redirect it to a "
                "file or a pipe: > FILE"
            )
        return memoryview(data).nbytes


def output_error(error: OSError) -> OutputError:
    """What to tell about standard output that cannot be written to."""
    if error.errno == errno.EPIPE:  # the reader has gone, and needs no message
        return OutputError("Standard output was closed by its reader.", is_pipe=True)
    cause = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror
    return OutputError(
        f"Standard output: {cause}. The output is incomplete; delete it, make room or choose "
        "another place, and run the same command again."
    )


@contextmanager
def standard_streams() -> Iterator[None]:
    """Replace the standard streams of the process by checked ones, in UTF-8, for a while."""
    before = sys.stdout, sys.stderr
    _hold_closed_descriptors()
    sys.stdout = _checked(sys.stdout, _OUTPUT)
    sys.stderr = _checked(sys.stderr, _ERROR)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _checked(stream: Any, descriptor: int) -> Any:
    """The stream that is used instead; what a host program put in its place stays."""
    is_output = descriptor == _OUTPUT
    if stream is None:
        raw: _Stream = (_ClosedOutput if is_output else _Stream)(descriptor)
    elif isinstance(stream, TextIOWrapper) and isinstance(_raw(stream), FileIO):
        with suppress(OSError):
            stream.flush()
        raw = (_Output if is_output else _Stream)(stream.fileno())
    else:
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8")
        return stream
    return TextIOWrapper(
        BufferedWriter(raw),
        encoding="utf-8",
        errors="strict" if is_output else "backslashreplace",
        line_buffering=not is_output or raw.isatty() or getattr(stream, "write_through", False),
    )


def _raw(stream: TextIOWrapper) -> object:
    return getattr(stream.buffer, "raw", stream.buffer)  # PYTHONUNBUFFERED leaves out the buffer


def _hold_closed_descriptors() -> None:
    """Open the null device in place of closed standard streams.

    Otherwise the next file that is opened gets that number, and what a library writes to standard
    error ends up in a model.
    """
    for descriptor in (_INPUT, _OUTPUT, _ERROR):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != descriptor:
                os.dup2(opened, descriptor)
                os.close(opened)
