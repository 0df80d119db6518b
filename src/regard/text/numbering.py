"""Other people's ids as ours: our four marks first, then whatever else they have, in their order.

Searches and kernels know our marks by their ids (`special.py`), so an imported vocabulary is
renumbered. A mark that others do not have is a row of ours alone, which nobody can write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from regard.bounds import IDS, Ge
from regard.config import Doc, Settings

ALONE = -1  # in place of their id, where there is none


@dataclass(frozen=True)
class Numbering(Settings):
    """How many ids others have, and which of them are our marks."""

    size: Annotated[int, Doc("how many ids they have"), Ge(1), IDS]
    pad: Annotated[int | None, Doc("their id of our padding"), Ge(0), IDS] = None
    unknown: Annotated[
        int | None, Doc("of what no subword covers and nobody writes"), Ge(0), IDS
    ] = None
    start: Annotated[int | None, Doc("of our start mark"), Ge(0), IDS] = None
    end: Annotated[int | None, Doc("of our end mark"), Ge(0), IDS] = None

    def problems(self) -> Iterator[str]:
        """Marks are among their ids."""
        for name in ("pad", "unknown", "start", "end"):
            number = getattr(self, name)
            if number is not None and number >= self.size:
                yield f"{name} is {number}, and must be below size, which is {self.size}"

    @cached_property
    def theirs(self) -> list[int]:
        """For each of our ids theirs, or ALONE."""
        marks = [self.pad, self.unknown, self.start, self.end]
        rest = (number for number in range(self.size) if number not in marks)
        return [*(ALONE if mark is None else mark for mark in marks), *rest]

    @cached_property
    def _ours(self) -> dict[int, int]:
        return {theirs: ours for ours, theirs in enumerate(self.theirs)}

    def ours(self, ids: Iterable[int]) -> list[int]:
        """Ids of theirs as ours."""
        known = self._ours
        return [known[number] for number in ids]

    def written(self, ids: Iterable[int]) -> list[int]:
        """Ids of ours as theirs; what is ours alone is left out."""
        found = (self.theirs[int(number)] for number in ids)
        return [number for number in found if number != ALONE]
