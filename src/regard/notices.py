"""Notices: messages for the user, which the caller of a function prints, collects or ignores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Notice = Callable[[str], None]
_MAX_NOTICES = 3  # of one kind


@contextmanager
def limited_notices(notify: Notice) -> Iterator[Notice]:
    """A function that passes on the first few notices about lines and counts the rest."""
    count = 0

    def notice(text: str) -> None:
        nonlocal count
        count += 1
        if count <= _MAX_NOTICES:
            notify(text)

    try:
        yield notice
    finally:
        suppressed = count - _MAX_NOTICES
        if suppressed > 0:
            notify(f"The same applies to {suppressed:,} more line{'s' if suppressed > 1 else ''}.")


class NoticeWarning(UserWarning):
    """A notice of code whose caller takes none: the command prints it without a location."""
