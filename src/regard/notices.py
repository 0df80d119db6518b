"""Notices: messages for the user, which the caller of a function prints, collects or ignores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Notice = Callable[[str], None]
_MAX_NOTICES = 3  # of one kind
_KIND = 5  # words after "Line 3" that say what a notice is about


@contextmanager
def limited_notices(notify: Notice) -> Iterator[Notice]:
    """A function that passes on the first few notices of each kind about lines and counts others.

    Other notices are all passed on.
    """
    first: dict[str, str] = {}  # line of each kind
    counts: Counter[str] = Counter()

    def notice(text: str) -> None:
        if not text.startswith("Line "):
            notify(text)
            return
        _, line, remarks = text.split(" ", 2)
        kind = _kind(remarks)
        first.setdefault(kind, line)
        counts[kind] += 1
        if counts[kind] <= _MAX_NOTICES:
            notify(text)

    try:
        yield notice
    finally:
        many = counts - Counter(dict.fromkeys(counts, _MAX_NOTICES))  # those above 0
        for kind, count in many.items():
            subject = "The same" if len(many) == 1 else f"What applies to line {first[kind]}"
            notify(f"{subject} applies to {count:,} more line{'s' if count > 1 else ''}.")


def _kind(remarks: str) -> str:
    """The beginnings of the sentences about a line, which are the same in notices of a kind."""
    return " ".join(" ".join(each.split()[:_KIND]) for each in remarks.split(". It "))


class NoticeWarning(UserWarning):
    """A notice of code whose caller takes none: the command prints it without a location."""
