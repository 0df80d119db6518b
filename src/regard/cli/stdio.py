"""Checked standard streams: lost output is an error, failures of standard error are ignored.

Python silently discards output if standard output is closed, and `print` fails if standard error
cannot be written to. With these streams, the command fails unless every byte of standard output is
written, and goes on if standard error cannot be written to.
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
    """A file descriptor; `write` waits instead of blocking, and discards data after a failure."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._failed = False

    def write(self, data: Any, /) -> int:
        """Write or discard data; returns the number of bytes."""
        while not self._failed:
            try:
                written: int | None = super().write(data)
            except OSError as error:
                self._failed = True
                self.on_failure(error)
            else:
                if written is not None:
                    return written
                select.select([], [self], [])  # a non-blocking pipe is full
        return memoryview(data).nbytes

    def on_failure(self, error: OSError) -> None:
        """Called once, at the first failure."""


class _Output(_Stream):
    """Standard output; the command fails if it cannot be written to."""

    def on_failure(self, error: OSError) -> None:
        """Raise an `OutputError`; typer would handle an `OSError` itself."""
        raise output_error(error) from error


class _ClosedOutput(_Stream):
    """Standard output that was closed at startup; only writing to it is an error."""

    def write(self, data: Any, /) -> int:
        """Raise an error at the first call."""
        if not self._failed:
            self._failed = True
            raise OutputError(
                "Standard output is closed, so results cannot be written. Redirect it to a file or "
                "a pipe: > FILE"
            )
        return memoryview(data).nbytes


def output_error(error: OSError) -> OutputError:
    """The error for standard output that cannot be written to."""
    if error.errno == errno.EPIPE:  # the reader has exited
        return OutputError("Standard output was closed by its reader.", is_pipe=True)
    cause = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror
    return OutputError(
        f"Standard output: {cause}. The output is incomplete: delete it, free some space or "
        "choose another path, and run the same command again."
    )


@contextmanager
def standard_streams() -> Iterator[None]:
    """Replace sys.stdout and sys.stderr by checked UTF-8 streams inside the context."""
    previous = sys.stdout, sys.stderr
    _reserve_closed_descriptors()
    sys.stdout = _to_checked_stream(sys.stdout, _OUTPUT)
    sys.stderr = _to_checked_stream(sys.stderr, _ERROR)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = previous


def _to_checked_stream(stream: Any, descriptor: int) -> Any:
    """The checked stream; a replacement by a host program is kept."""
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
    return getattr(stream.buffer, "raw", stream.buffer)  # no buffer with PYTHONUNBUFFERED


def _reserve_closed_descriptors() -> None:
    """Open the null device for closed standard streams.

    Otherwise the next opened file gets such a descriptor, and a library that writes to standard
    error would write into that file.
    """
    for descriptor in (_INPUT, _OUTPUT, _ERROR):
        try:
            os.fstat(descriptor)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            if null != descriptor:
                os.dup2(null, descriptor)
                os.close(null)
