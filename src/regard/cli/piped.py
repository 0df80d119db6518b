"""Lines that are piped or typed in: standard input as text."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from io import BufferedReader

from regard.data.corpus import decoded, lines_of
from regard.errors import DataError
from regard.progress import say

_NAME = "standard input"


def given_or_piped(texts: list[str] | None, size: int = 2000) -> Iterator[list[str]]:
    """The arguments of a command, or else standard input, many lines at a time.

    Where a person types, it is one line at a time.
    """
    if texts:
        yield texts
        return
    if sys.stdin is None:
        raise DataError(f"There is no {_NAME}. Give a file: < FILE")
    if sys.stdin.isatty():
        size = 1
    file = sys.stdin.buffer
    if not isinstance(file, BufferedReader):  # where a program has put something in its place
        file = BufferedReader(file)
    lines: list[str] = []
    number = 0
    try:
        for number, line in enumerate(lines_of(file, _NAME), 1):
            lines.append(decoded(line, _NAME, number))
            if len(lines) == size:
                yield lines
                lines = []
    except DataError:
        yield lines  # what came before a bad line is worked on all the same
        raise
    except OSError as error:  # a file that was opened for writing, for example
        yield lines
        raise DataError(f"{_NAME} cannot be read: {error.strerror}.") from None
    if not number:
        say(f"There was nothing on {_NAME}.")
    yield lines
