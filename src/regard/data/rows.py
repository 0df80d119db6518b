"""Rows of unequal length from two files, one of numbers and one of offsets, mapped into memory."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import DataError
from regard.regular import open_regular

REMEDY = "Run `regard prepare` again, with --overwrite."
_ROWS = 2**16  # that are hashed at once


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

    @property
    def digest(self) -> bytes:
        """The digest that `SideWriter` computes: as if each row was hashed with a line feed.

        About 1.4 s for a gigabyte: many rows are hashed at once.
        """
        digest, size = hashlib.sha256(), self._values.itemsize
        for begin in range(0, len(self), _ROWS):
            some = self._offsets[begin : begin + _ROWS + 1]
            data = self._values[some[0] : some[-1]].view(np.uint8)
            ends = (some[1:] - some[0]) * size + np.arange(len(some) - 1)
            joined = np.full(len(data) + len(ends), ord("\n"), np.uint8)
            inner = np.ones(len(joined), bool)
            inner[ends] = False
            joined[inner] = data
            digest.update(joined.data)
        return digest.digest()

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
            f"{ids} ids. {REMEDY}"
        )


def offsets(folder: Path, name: str) -> NDArray[np.int64]:
    """Where each sentence of a side, such as "train.source", begins, and where the last ends."""
    path = folder / f"{name}.offsets"
    found = mapped(path, "int64")
    if found[0] != 0 or (found[1:] < found[:-1]).any():
        raise DataError(f"{path} is damaged: its numbers do not ascend from 0. {REMEDY}")
    return found


def mapped(path: Path, dtype: str, remedy: str = REMEDY) -> NDArray[Any]:
    """The numbers of a file, read from the disk when they are looked at."""
    if not path.exists():
        raise DataError(f"{path} is missing. {remedy}")
    try:
        with open_regular(path) as file:
            # A view as a plain array: slices of it cost a fraction of those of a memmap.
            return np.memmap(file, dtype=dtype, mode="r").view(np.ndarray)
    except ValueError:
        raise DataError(f"{path} is truncated. {remedy}") from None
