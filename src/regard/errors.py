"""The hierarchy of errors that a user can cause.

RegardError              base class; the message says what is wrong, where, and what to do
├── ConfigError          a setting is unknown, invalid or contradicts another
├── DataError            text files or prepared folders cannot be used
├── ModelError           a model folder is missing, incomplete or of another format
├── RunError             a run folder is in use or belongs to another run
├── StorageError         the disk is full, or a file may not be read or written
├── OutputError          standard output cannot be written (exit 141 for a broken pipe)
├── DivergedError        training diverged: the loss is not finite (exit 1)
├── ProcessLostError     another process of the same run has ended (exit 1)
└── StoppedError         a signal stopped the run; everything is saved (exit 128 + signal)

The command prints the message without a traceback and exits with `exit_status`. Bugs raise
`AssertionError` and never one of these.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence


class RegardError(Exception):
    """An error whose message tells the user what to do."""

    exit_status = 2
    is_reported = False  # whether another process of the same run has printed it


class ConfigError(RegardError):
    """A setting is unknown, of the wrong type, out of bounds, or contradicts another."""


class DataError(RegardError):
    """Text files or a prepared folder cannot be used."""


class ModelError(RegardError):
    """A model folder is missing, incomplete, damaged, or of another format."""


class RunError(RegardError):
    """A run folder is in use, or holds another run."""


class StorageError(RegardError):
    """The disk is full, or a path may not be read or written."""


class OutputError(RegardError):
    """Standard output is closed, full, or no longer read."""

    def __init__(self, message: str, *, is_pipe: bool = False) -> None:
        super().__init__(message)
        if is_pipe:  # the exit status of a process killed by SIGPIPE, which prints nothing
            self.exit_status = 128 + signal.SIGPIPE
            self.is_reported = True


class DivergedError(RegardError):
    """The loss or a weight is not finite."""

    exit_status = 1


class ProcessLostError(RegardError):
    """Another process of the same run has ended, so this one cannot continue."""

    exit_status = 1


class StoppedError(RegardError):
    """The run was stopped by a signal, after saving."""

    def __init__(self, message: str, *, signal_number: int) -> None:
        super().__init__(message)
        self.exit_status = 128 + signal_number


_MAX_PROBLEMS = 20


def format_problems(problems: Sequence[str], heading: str) -> str:
    """All problems of an input as one message."""
    if len(problems) == 1:
        return f"{heading}: {problems[0]}"
    lines = [f"  - {problem}" for problem in problems[:_MAX_PROBLEMS]]
    if len(problems) > _MAX_PROBLEMS:
        lines.append(f"  - and {len(problems) - _MAX_PROBLEMS} more")
    return "\n".join([f"{heading}, {len(problems)} problems:", *lines])
