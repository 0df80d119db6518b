"""Rows of unequal length from two files, one of numbers and one of offsets, mapped into memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import DataError


class Rows:
    """Rows of unequal length, laid end to end in one array; `offsets` say where each begins."""

    def __init__(self, values: NDArray[Any], offsets: NDArray[np.int64]) -> None:
        self._values, self._offsets = values, offsets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, index: int) -> NDArray[Any]:
        return self._values[self._offsets[index] : self._offsets[index + 1]]

    def flat(self) -> NDArray[Any]:
        """All values, row after row."""
        return self._values

    def lengths(self) -> NDArray[np.int64]:
        """How many values each row has."""
        return np.diff(self._offsets)

    def first(self, count: int) -> Rows:
        """The first rows alone, so many or all there are."""
        kept = self._offsets[: count + 1]
        return Rows(self._values[: kept[-1]], kept)


class Sentences(Rows):
    """One side of one part: a sequence of sentences of ids, without end marks."""

    def __init__(self, folder: Path, name: str, dtype: str) -> None:
        super().__init__(mapped(folder / f"{name}.ids", dtype), offsets(folder, name))
        refuse_unequal(folder, name, name, int(self._offsets[-1]), len(self._values))


def refuse_unequal(folder: Path, name: str, values: str, end: int, ids: int) -> None:
    """Say that the offsets of a name end elsewhere than the ids do."""
    if end != ids:
        damaged = f"{values}.ids" if end > ids else f"{name}.offsets"
        raise DataError(
            f"{folder / damaged} is truncated: {name}.offsets ends at {end}, and {values}.ids has "
            f"{ids} ids. Run `regard prepare` again."
        )


def offsets(folder: Path, name: str) -> NDArray[np.int64]:
    """Where each sentence of a side, such as "train.source", begins, and where the last ends."""
    path = folder / f"{name}.offsets"
    found = mapped(path, "int64")
    if found[0] != 0 or (found[1:] < found[:-1]).any():
        raise DataError(
            f"{path} is damaged: its numbers do not ascend from 0. Run `regard prepare` again."
        )
    return found


def mapped(path: Path, dtype: str, remedy: str = "Run `regard prepare` again.") -> NDArray[Any]:
    """The numbers of a file, read from the disk when they are looked at."""
    try:
        # A view as a plain array: slices of it cost a fraction of those of a memmap.
        return np.memmap(path, dtype=dtype, mode="r").view(np.ndarray)
    except (FileNotFoundError, ValueError):
        raise DataError(f"{path} is missing or truncated. {remedy}") from None
