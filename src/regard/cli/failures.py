"""Converts exceptions of the command to one message on standard error and an exit status."""

from __future__ import annotations

import os
import platform
import shlex
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from signal import SIGHUP, SIGTERM
from typing import TextIO

from regard.config import RenamedWarning
from regard.errors import OutputError, RegardError
from regard.notices import NoticeWarning
from regard.os_errors import os_error_advice
from regard.plugins import error_location
from regard.version import __version__

_USER, _BUG, _INTERRUPTED = 2, 70, 130  # 70 is EX_SOFTWARE of sysexits.h
# Exit statuses that typer sets for Ctrl-C and `regard.cli.outputs` for signals.
_STOPPED = {_INTERRUPTED: "Ctrl-C", 128 + SIGTERM: "SIGTERM", 128 + SIGHUP: "SIGHUP"}
_MAX_MESSAGE = 300  # characters of another library's message
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "Unable to allocate")


def exit_status(command: Callable[[], object]) -> int:
    """Run the command, print an error message if it fails, and return its exit status."""
    try:
        status = _run(command)
        sys.stdout.flush()  # may fail, too
    except RegardError as error:
        _flush_output()
        if not error.is_reported:
            _print_error(str(error))
        return error.exit_status
    except KeyboardInterrupt:  # not caught by typer
        status = _INTERRUPTED
    except Exception as error:
        _flush_output()
        return _report_unexpected(error)
    if status in _STOPPED:
        _print_error(f"Stopped by {_STOPPED[status]} before the command finished.")
    return status


def _run(command: Callable[[], object]) -> int:
    try:
        command()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _flush_output() -> None:
    """Write the output that was printed before a failure."""
    with suppress(OutputError):  # another failure is reported already
        sys.stdout.flush()


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print warnings of ours as notices; for `warnings.showwarning`."""
    text = warnings.formatwarning(message, category, filename, lineno, line)
    is_notice = issubclass(category, RenamedWarning | NoticeWarning)
    print(f"regard: {message}" if is_notice else text.rstrip(), file=file or sys.stderr)


def _print_error(message: str) -> None:
    print(f"regard: {message}", file=sys.stderr)


def _report_unexpected(error: Exception) -> int:
    """Report an unhandled exception; returns the exit status."""
    if isinstance(error, OSError) and (advice := os_error_advice(error)):
        _print_error(f"{error.filename or 'a file'}: {advice}")
        return _USER
    message = _explain(error)
    _print_error(
        f"{message or f'Unexpected error: {_shorten(error)}. This is a bug in regard.'} "
        f"{_write_log(error)}"
    )
    return _USER if message else _BUG


def _explain(error: Exception) -> str | None:
    """What is wrong and what to do, if the user can correct it."""
    if location := error_location(error):
        return f"Error in plugin {location}: {_shorten(error)}. Correct the plugin."
    if _is_out_of_memory(error):
        return (
            f"Out of memory: {_shorten(error)}. Reduce --batch-size (in training: "
            "data.batch_tokens) or the model size, or use a machine with more memory."
        )
    if isinstance(error, RecursionError):
        return "The input is nested too deeply. Check the input files."
    if isinstance(error, UnicodeEncodeError) and error.reason == "surrogates not allowed":
        return (
            f"{error.object[:_MAX_MESSAGE]!r} is not valid UTF-8. Rename the file or folder, or "
            "check the text."
        )
    if isinstance(error, ValueError) and str(error) == "embedded null byte":
        return "The name of a file or folder contains a NUL character. Correct it."
    if isinstance(error, OSError) and error.errno is not None:
        return f"{error.filename or 'Reading or writing'}: {error.strerror}."
    return None


def _is_out_of_memory(error: Exception) -> bool:
    """Whether an allocation failed; PyTorch and CTranslate2 raise a `RuntimeError` for it."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _OUT_OF_MEMORY)


def _shorten(error: Exception) -> str:
    """The class of an exception and the first line of its message."""
    first = next(iter(str(error).splitlines()), "").rstrip(". ")
    name = type(error).__name__
    return f"{name}: {first[:_MAX_MESSAGE]}" if first else name


def _write_log(error: Exception) -> str:
    """Write the traceback to a log file; returns its path, or the traceback if writing fails."""
    text = "".join(
        [
            f"regard {__version__}, Python {platform.python_version()}, {platform.platform()}\n",
            f"{shlex.join(sys.argv)}\n\n",
            *traceback.format_exception(error),
        ]
    )
    for folder in (_state_folder(), Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            name = f"error-{datetime.now():%Y%m%d-%H%M%S}-"
            descriptor, path = tempfile.mkstemp(".log", name, folder)
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
        except OSError:
            continue
        return f"The traceback is in {path}."
    return f"The traceback:\n{text}"


def _state_folder() -> Path:
    """The user's state directory; a batch job's temporary folder may be deleted with the job."""
    state = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(state) if os.path.isabs(state) else Path(os.path.expanduser("~/.local/state"))
    return folder / "regard"
