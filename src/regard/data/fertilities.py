"""Fertilities: how many target subwords each source subword of a store stands for.

`train.fertilities` and `valid.fertilities` in a prepared folder hold one byte for each source id,
in the store's order. Those of a pair add up to its target subwords, end marks not counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.rows import Rows, mapped, offsets
from regard.errors import DataError
from regard.files import whole_file

_MOST = 255  # what a byte holds
_REMEDY = "Make it with `regard align --data {}`."


def write_fertilities(folder: Path, name: str, values: Iterable[NDArray[np.integer[Any]]]) -> None:
    """Those of all pairs of a part ("train" or "valid"), in their order, into a prepared folder."""
    with whole_file(fertilities_file(folder, name)) as temporary:
        with temporary.open("wb") as file:
            for pair in values:
                file.write(pair.astype(np.uint8).tobytes())
        assert temporary.stat().st_size == offsets(folder, f"{name}.source")[-1]


def read_fertilities(folder: Path, name: str) -> Rows:
    """What `write_fertilities` wrote: for each pair of a part, a number for each source id."""
    path, remedy = fertilities_file(folder, name), _REMEDY.format(folder)
    values, begins = mapped(path, "uint8", remedy), offsets(folder, f"{name}.source")
    if len(values) != begins[-1]:
        raise DataError(f"{path} is of other text than the store. {remedy}")
    if (_sums(values, begins) != np.diff(offsets(folder, f"{name}.target"))).any():
        raise DataError(
            f"{path} is damaged, or of other text than the store: the numbers of a pair do not add "
            f"up to its target subwords. {remedy} Add --overwrite."
        )
    return Rows(values, begins)


def _sums(values: NDArray[np.uint8], begins: NDArray[np.int64]) -> NDArray[np.int64]:
    """The sum of each row; `reduceat` cannot do rows that are empty."""
    sums = np.zeros(len(begins) - 1, np.int64)
    full = np.flatnonzero(np.diff(begins))
    if len(full):
        sums[full] = np.add.reduceat(values, begins[full], dtype=np.int64)
    return sums


def fertilities_file(folder: Path, name: str) -> Path:
    """Where a prepared folder has the fertilities of a part."""
    return folder / f"{name}.fertilities"


def fertilities(heads: NDArray[np.int64], sources: int) -> NDArray[np.int64]:
    """How many target subwords each of so many source subwords stands for, in one pair.

    `heads` say which source subword each target subword comes from, -1: none. Such a one goes
    with its nearest neighbour that comes from one, the earlier of two; if there is none in the
    whole sentence, all are shared out evenly, in order.
    """
    places = np.arange(len(heads))
    known = np.flatnonzero(heads >= 0)
    if len(known):
        nearest = np.abs(places[:, None] - known).argmin(1)
        whole = heads[known[nearest]]
    else:
        whole = places * sources // max(len(heads), 1)
    return _within_a_byte(np.bincount(whole, minlength=sources))


def _within_a_byte(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """What a byte cannot hold goes to the nearest subwords that have room."""
    for place in np.flatnonzero(counts > _MOST):
        for other in np.argsort(np.abs(np.arange(len(counts)) - place), kind="stable")[1:]:
            moved = min(counts[place] - _MOST, max(_MOST - counts[other], 0))
            counts[place] -= moved
            counts[other] += moved
    if counts.max(initial=0) > _MOST:
        raise DataError(
            f"A pair has {counts.sum()} target subwords for {len(counts)} of its source, too many "
            "for any alignment. Prepare the data with a lower --max-ratio."
        )
    return counts
