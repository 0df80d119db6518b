"""Notices: texts for a person, which whoever calls a function may print, collect or ignore."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Notice = Callable[[str], None]
_MOST = 3  # of one kind


def ignore(text: str) -> None:
    """A `Notice` that drops everything."""


@contextmanager
def sparingly(say: Notice) -> Iterator[Notice]:
    """A function that says the first few of many notices about lines; the rest are counted."""
    count = 0

    def notice(text: str) -> None:
        nonlocal count
        count += 1
        if count <= _MOST:
            say(text)

    try:
        yield notice
    finally:
        more = count - _MOST
        if more > 0:
            say(f"The same goes for {more:,} more line{'s' if more > 1 else ''}.")
