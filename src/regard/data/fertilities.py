"""Fertilities: the number of target subwords aligned to each source subword of a store.

`train.fertilities` and `valid.fertilities` in a prepared folder have one byte per source id, in the
store's order. The fertilities of a pair add up to its number of target subwords, without EOS.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.rows import Rows, memory_map, read_offsets
from regard.errors import DataError
from regard.files import atomic_file

_MAX_FERTILITY = 255  # of a byte
_REMEDY = "Make it with `regard align --data {}`."


def write_fertilities(folder: Path, name: str, values: Iterable[NDArray[np.integer[Any]]]) -> None:
    """Write the fertilities of all pairs of a part ("train" or "valid"), in their order."""
    with atomic_file(fertilities_path(folder, name)) as temporary:
        with temporary.open("wb") as file:
            for pair in values:
                file.write(pair.astype(np.uint8).tobytes())
        assert temporary.stat().st_size == read_offsets(folder, f"{name}.source")[-1]


def read_fertilities(folder: Path, name: str) -> Rows:
    """The fertilities of each pair of a part, one for each source id."""
    path, remedy = fertilities_path(folder, name), _REMEDY.format(folder)
    replacement = _REMEDY.format(f"{folder} --overwrite")
    values, begins = memory_map(path, "uint8", remedy), read_offsets(folder, f"{name}.source")
    if len(values) != begins[-1]:
        raise DataError(f"{path} does not match the store. {replacement}")
    if (_sums(values, begins) != np.diff(read_offsets(folder, f"{name}.target"))).any():
        raise DataError(
            f"{path} is damaged or does not match the store: the numbers of a pair do not add "
            f"up to its target subwords. {replacement}"
        )
    return Rows(values, begins)


def _sums(values: NDArray[np.uint8], begins: NDArray[np.int64]) -> NDArray[np.int64]:
    """The sum of each row; `reduceat` does not support empty rows."""
    sums = np.zeros(len(begins) - 1, np.int64)
    nonempty = np.flatnonzero(np.diff(begins))
    if len(nonempty):
        sums[nonempty] = np.add.reduceat(values, begins[nonempty], dtype=np.int64)
    return sums


def fertilities_path(folder: Path, name: str) -> Path:
    """The path of the fertilities of a part in a prepared folder."""
    return folder / f"{name}.fertilities"


def compute_fertilities(alignment: NDArray[np.int64], sources: int) -> NDArray[np.int64]:
    """The fertilities of the `sources` source subwords of one pair.

    `alignment` has the source position of each target subword, or -1. An unaligned subword gets
    the source position of its nearest aligned neighbor, the earlier of two; if there is none, all
    target subwords are distributed evenly, in order.
    """
    positions = np.arange(len(alignment))
    aligned = np.flatnonzero(alignment >= 0)
    if len(aligned):
        nearest = np.abs(positions[:, None] - aligned).argmin(1)
        complete = alignment[aligned[nearest]]
    else:
        complete = positions * sources // max(len(alignment), 1)
    return _limit_to_byte(np.bincount(complete, minlength=sources))


def _limit_to_byte(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Move excess over the maximum of a byte to the nearest subwords with capacity."""
    for index in np.flatnonzero(counts > _MAX_FERTILITY):
        for other in np.argsort(np.abs(np.arange(len(counts)) - index), kind="stable")[1:]:
            moved = min(counts[index] - _MAX_FERTILITY, max(_MAX_FERTILITY - counts[other], 0))
            counts[index] -= moved
            counts[other] += moved
    if counts.max(initial=0) > _MAX_FERTILITY:
        raise DataError(
            f"A pair has {counts.sum()} target subwords for {len(counts)} source subwords, too "
            "many for an alignment. Prepare the data with a lower --max-ratio."
        )
    return counts
