"""Ragged rows in two memory-mapped files, one of values and one of offsets."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import DataError
from regard.regular_files import open_regular_file

REMEDY = "Run `regard prepare` again, with --overwrite."
_HASHED_ROWS = 2**16  # at once


class Rows:
    """Rows of different lengths, concatenated in one array; `offsets` are where each begins."""

    def __init__(self, values: NDArray[Any], offsets: NDArray[np.int64]) -> None:
        self._values, self._offsets = values, offsets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, index: int) -> NDArray[Any]:
        return self._values[self._offsets[index] : self._offsets[index + 1]]

    def flat(self) -> NDArray[Any]:
        """All values, concatenated."""
        return self._values

    def lengths(self) -> NDArray[np.int64]:
        """The number of values of each row."""
        return np.diff(self._offsets)

    @property
    def digest(self) -> bytes:
        """The digest that `SideWriter` computes, with a line feed after each row.

        Many rows are hashed at once: about 1.4 s per gigabyte.
        """
        digest, size = hashlib.sha256(), self._values.itemsize
        for begin in range(0, len(self), _HASHED_ROWS):
            chunk = self._offsets[begin : begin + _HASHED_ROWS + 1]
            data = self._values[chunk[0] : chunk[-1]].view(np.uint8)
            ends = (chunk[1:] - chunk[0]) * size + np.arange(len(chunk) - 1)
            joined = np.full(len(data) + len(ends), ord("\n"), np.uint8)
            inner = np.ones(len(joined), bool)
            inner[ends] = False
            joined[inner] = data
            digest.update(joined.data)
        return digest.digest()

    def first(self, count: int) -> Rows:
        """The first `count` rows, or all if there are fewer."""
        offsets = self._offsets[: count + 1]
        return Rows(self._values[: offsets[-1]], offsets)


class SideReader(Rows):
    """One side of a part of a store, such as "train.source": rows of ids, without EOS."""

    def __init__(self, folder: Path, name: str, dtype: str) -> None:
        super().__init__(memory_map(folder / f"{name}.ids", dtype), read_offsets(folder, name))
        verify_offsets(folder, name, name, int(self._offsets[-1]), len(self._values))


def verify_offsets(folder: Path, name: str, values: str, end: int, ids: int) -> None:
    """Raise an error if the last offset is not the number of ids."""
    if end != ids:
        damaged = f"{values}.ids" if end > ids else f"{name}.offsets"
        raise DataError(
            f"{folder / damaged} is truncated: {name}.offsets ends at {end}, but {values}.ids has "
            f"{ids} ids. {REMEDY}"
        )


def read_offsets(folder: Path, name: str) -> NDArray[np.int64]:
    """The offsets of a side, such as "train.source": where each row begins and the last ends."""
    path = folder / f"{name}.offsets"
    offsets: NDArray[np.int64] = memory_map(path, "int64")
    if offsets[0] != 0 or (offsets[1:] < offsets[:-1]).any():
        raise DataError(
            f"{path} is damaged: its offsets must start at 0 and not decrease. {REMEDY}"
        )
    return offsets


def memory_map(path: Path, dtype: str, remedy: str = REMEDY) -> NDArray[Any]:
    """The numbers of a file as a memory-mapped array."""
    if not path.exists():
        raise DataError(f"{path} is missing. {remedy}")
    try:
        with open_regular_file(path) as file:
            # As a plain array, since slicing a memmap is many times slower.
            return np.memmap(file, dtype=dtype, mode="r").view(np.ndarray)
    except ValueError:
        raise DataError(f"{path} is truncated. {remedy}") from None
