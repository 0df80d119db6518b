"""Mapping between the ids of an imported vocabulary and internal ids.

Internal ids are the four special tokens (`special.py`), which decoders and kernels expect at fixed
ids, followed by all other imported ids in their order. A special token that the imported
vocabulary lacks has an internal id only and is never generated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from regard.bounds import IDS, Ge
from regard.config import Doc, Settings

NO_IMPORTED_ID = -1  # of a special token that the imported vocabulary lacks


@dataclass(frozen=True)
class IdMapping(Settings):
    """The size of an imported vocabulary and the imported ids of the special tokens."""

    size: Annotated[int, Doc("size of the imported vocabulary"), Ge(1), IDS]
    pad: Annotated[int | None, Doc("imported id of PAD"), Ge(0), IDS] = None
    unknown: Annotated[int | None, Doc("imported id of UNK"), Ge(0), IDS] = None
    start: Annotated[int | None, Doc("imported id of BOS"), Ge(0), IDS] = None
    end: Annotated[int | None, Doc("imported id of EOS"), Ge(0), IDS] = None

    def problems(self) -> Iterator[str]:
        """Special tokens must be ids of the imported vocabulary."""
        for name in ("pad", "unknown", "start", "end"):
            number = getattr(self, name)
            if number is not None and number >= self.size:
                yield f"{name} is {number}, but must be less than size ({self.size})"

    @cached_property
    def imported_ids(self) -> list[int]:
        """The imported id of each internal id, or NO_IMPORTED_ID."""
        special = [self.pad, self.unknown, self.start, self.end]
        rest = (token for token in range(self.size) if token not in special)
        return [*(NO_IMPORTED_ID if token is None else token for token in special), *rest]

    @cached_property
    def _internal_ids(self) -> dict[int, int]:
        return {imported: internal for internal, imported in enumerate(self.imported_ids)}

    def to_internal(self, ids: Iterable[int]) -> list[int]:
        """Map imported ids to internal ids."""
        internal_ids = self._internal_ids
        return [internal_ids[token] for token in ids]

    def to_imported(self, ids: Iterable[int]) -> list[int]:
        """Map internal ids to imported ids; ids without an imported id are dropped."""
        imported = (self.imported_ids[int(token)] for token in ids)
        return [token for token in imported if token != NO_IMPORTED_ID]

    @property
    def fingerprint(self) -> str:
        """A text that identifies the mapping; part of fingerprints in existing stores."""
        return (
            f"Numbering(size={self.size}, pad={self.pad}, unknown={self.unknown}, "
            f"start={self.start}, end={self.end})"
        )
