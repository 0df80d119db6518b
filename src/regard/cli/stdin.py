"""Reads texts from arguments or standard input, and passes them to pipelines as a stream."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from io import BufferedReader, FileIO
from typing import TYPE_CHECKING, Any, TypeVar

from regard.data.line_reader import decode_line, raw_lines_from
from regard.decoding.runtime import Runtime, ThroughputOptions
from regard.errors import DataError
from regard.progress import notify

if TYPE_CHECKING:
    import torch

    from regard.notices import Notice
    from regard.pipelines.text_stream import StreamKeywords

T = TypeVar("T")
_NAME = "standard input"


def read_stdin() -> Iterator[str]:
    """Yield the lines of standard input."""
    if sys.stdin is None:
        raise DataError(f"There is no {_NAME}. Redirect a file: < FILE")
    number = 0
    try:
        for number, line in enumerate(raw_lines_from(_reader(sys.stdin.buffer), _NAME), 1):
            yield decode_line(line, _NAME, number)
    except OSError as error:  # for example, a file opened for writing
        raise DataError(f"{_NAME} cannot be read: {error.strerror}.") from None
    if not number:
        notify(f"{_NAME} is empty.")


def _reader(file: Any) -> BufferedReader:
    """A reader of standard input that a thread may wait for while Python exits."""
    if not isinstance(file, BufferedReader):  # a host program has replaced it
        return BufferedReader(file)
    if isinstance(file.raw, FileIO):
        return BufferedReader(FileIO(file.fileno(), closefd=False))  # Python closes sys.stdin
    return file


def read_texts(texts: list[str] | None) -> Iterator[str]:
    """Yield the arguments of a command, or else the lines of standard input."""
    return iter(texts) if texts else read_stdin()


def is_interactive() -> bool:
    """Whether standard input is a terminal, where each line is answered at once."""
    return sys.stdin is not None and sys.stdin.isatty()


def collected(items: Iterable[T], queue: deque[T]) -> Iterator[T]:
    """Yield the items and append them to a queue, from which their results can be labelled."""
    for item in items:
        queue.append(item)
        yield item


def stream_keywords(
    runtime: Runtime, throughput: ThroughputOptions, device: torch.device | None, notice: Notice
) -> StreamKeywords:
    """The keyword arguments of a pipeline's method that processes an iterable of texts."""
    from regard.pipelines.text_stream import default_workers

    workers = throughput.workers
    return {
        "batch_size": runtime.batch_size,
        "window": 1 if is_interactive() else throughput.buffer_size,
        "workers": default_workers(device) if workers is None else workers,
        "notice": notice,
        "on_wait": sys.stdout.flush,
    }
