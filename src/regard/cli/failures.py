"""Every failure of the command is one sentence on standard error and an exit status."""

from __future__ import annotations

import os
import platform
import shlex
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from signal import SIGHUP, SIGTERM

from regard.errors import OutputError, RegardError
from regard.plugins import place_of
from regard.remedies import remedy
from regard.version import __version__

_USER, _BUG, _INTERRUPTED = 2, 70, 130  # 70 is EX_SOFTWARE of sysexits.h
# What typer makes of Ctrl-C, and `regard.cli.outputs` of signals.
_STOPPED = {_INTERRUPTED: "Ctrl-C", 128 + SIGTERM: "SIGTERM", 128 + SIGHUP: "SIGHUP"}
_SHOWN = 300  # characters of another library's message
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "Unable to allocate")


def exit_status(command: Callable[[], object]) -> int:
    """Run the command; the status that the process ends with, after saying why it failed."""
    try:
        status = _finished(command)
        sys.stdout.flush()  # before it counts as a success
    except RegardError as error:
        _flush_output()
        if not error.is_said:
            _say(str(error))
        return error.exit_status
    except KeyboardInterrupt:  # outside typer's reach
        status = _INTERRUPTED
    except Exception as error:
        _flush_output()
        return _unexpected(error)
    if status in _STOPPED:
        _say(f"Stopped by {_STOPPED[status]} before it was done.")
    return status


def _finished(command: Callable[[], object]) -> int:
    try:
        command()
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else int(left.code is not None)
    return 0


def _flush_output() -> None:
    """Whatever was written before a failure is not lost."""
    with suppress(OutputError):  # there is a failure to report already
        sys.stdout.flush()


def _say(sentence: str) -> None:
    print(f"regard: {sentence}", file=sys.stderr)


def _unexpected(error: Exception) -> int:
    """Report an error that no verb expected: what the user can mend, or a bug."""
    if isinstance(error, OSError) and (advice := remedy(error)):
        _say(f"{error.filename or 'a file'}: {advice}")
        return _USER
    sentence = _sentence(error)
    _say(
        f"{sentence or f'Unexpected error: {_shortened(error)}. This is a bug in regard.'} "
        f"{_logged(error)}"
    )
    return _USER if sentence else _BUG


def _sentence(error: Exception) -> str | None:
    """What the user can do about it; None if that is nothing."""
    if place := place_of(error):
        return f"Error in plugin {place}: {_shortened(error)}. Correct the plugin."
    if _is_memory(error):
        return (
            f"The command does not fit into memory: {_shortened(error)}. Reduce --batch-size (in "
            "training: data.batch_tokens) or the size of the model, or give it more memory."
        )
    if isinstance(error, RecursionError):
        return "The input is nested too deeply. Check the files that were given."
    if isinstance(error, UnicodeEncodeError) and error.reason == "surrogates not allowed":
        return (
            f"{error.object[:_SHOWN]!r} is not valid UTF-8. Rename the file or folder, or check "
            "the text."
        )
    if isinstance(error, ValueError) and str(error) == "embedded null byte":
        return "The name of a file or folder has a NUL character. Correct it."
    if isinstance(error, OSError) and error.errno is not None:
        return f"{error.filename or 'Reading or writing'}: {error.strerror}."
    return None


def _is_memory(error: Exception) -> bool:
    """Whether memory was missing; PyTorch and CTranslate2 have errors of their own for it."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _OUT_OF_MEMORY)


def _shortened(error: Exception) -> str:
    """The class of an error and the first line of its message."""
    first = next(iter(str(error).splitlines()), "").rstrip(". ")
    name = type(error).__name__
    return f"{name}: {first[:_SHOWN]}" if first else name


def _logged(error: Exception) -> str:
    """Write the traceback to a file, and say where it is; it is part of the text if that fails."""
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
    """Where the user's programs keep logs; a job's temporary folder may vanish with the job."""
    state = os.environ.get("XDG_STATE_HOME", "")
    place = Path(state) if os.path.isabs(state) else Path(os.path.expanduser("~/.local/state"))
    return place / "regard"
