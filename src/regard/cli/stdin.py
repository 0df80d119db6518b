"""Reads texts from arguments or standard input, in chunks of lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from io import BufferedReader

from regard.data.line_reader import decode_line, raw_lines_from
from regard.errors import DataError
from regard.progress import notify

_NAME = "standard input"


def read_texts(texts: list[str] | None, size: int = 2000) -> Iterator[list[str]]:
    """Yield the arguments of a command, or else chunks of up to `size` lines of standard input.

    If standard input is a terminal, each chunk is one line.
    """
    if texts:
        yield texts
        return
    if sys.stdin is None:
        raise DataError(f"There is no {_NAME}. Redirect a file: < FILE")
    if sys.stdin.isatty():
        size = 1
    file = sys.stdin.buffer
    if not isinstance(file, BufferedReader):  # a host program has replaced it
        file = BufferedReader(file)
    lines: list[str] = []
    number = 0
    try:
        for number, line in enumerate(raw_lines_from(file, _NAME), 1):
            lines.append(decode_line(line, _NAME, number))
            if len(lines) == size:
                yield lines
                lines = []
    except DataError:
        yield lines  # process the lines before a bad one
        raise
    except OSError as error:  # for example, a file opened for writing
        yield lines
        raise DataError(f"{_NAME} cannot be read: {error.strerror}.") from None
    if not number:
        notify(f"{_NAME} is empty.")
    yield lines
