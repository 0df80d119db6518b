"""Every failure that a user can cause, as one tree.

RegardError              what, where, and what to do about it: one sentence for a person
├── ConfigError          a setting that does not exist, does not fit or contradicts another
├── DataError            text files and prepared folders that cannot be used
├── ModelError           a model folder that is missing, incomplete or of another format
├── RunError             a run folder that is in use or belongs to another run
├── StorageError         the disk is full, or a file may not be read or written
├── OutputError          standard output cannot be written to (141 if its reader has gone)
├── DivergedError        training failed by itself: the loss is no longer a number (exit 1)
├── LostError            another process of the same run has ended (exit 1)
└── StoppedError         a person or the system stopped the run; everything is saved (128 + signal)

The command prints the sentence, without a traceback, and exits with `exit_status`. What only a bug
can cause is an `assert` and never one of these.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence


class RegardError(Exception):
    """A failure with a sentence for the person who can mend it."""

    exit_status = 2
    is_said = False  # by another process of the same run


class ConfigError(RegardError):
    """A setting is unknown, of the wrong kind, out of bounds, or contradicts another."""


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
        if is_pipe:  # as a shell reports a process that SIGPIPE ended, which prints nothing
            self.exit_status = 128 + signal.SIGPIPE
            self.is_said = True


class DivergedError(RegardError):
    """The loss stopped being a finite number."""

    exit_status = 1


class LostError(RegardError):
    """Another process of the same run has ended, so this one cannot go on."""

    exit_status = 1


class StoppedError(RegardError):
    """The run was stopped by a signal, after saving."""

    def __init__(self, message: str, *, signal_number: int) -> None:
        super().__init__(message)
        self.exit_status = 128 + signal_number


_SHOWN = 20


def one_message(problems: Sequence[str], heading: str) -> str:
    """All problems of one input as one text, so that nobody mends them one run at a time."""
    if len(problems) == 1:
        return f"{heading}: {problems[0]}"
    lines = [f"  - {problem}" for problem in problems[:_SHOWN]]
    if len(problems) > _SHOWN:
        lines.append(f"  - and {len(problems) - _SHOWN} more")
    return "\n".join([f"{heading}, {len(problems)} problems:", *lines])
