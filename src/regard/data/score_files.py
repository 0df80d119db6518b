"""Files of scores: a tab-separated line for each pair, so that scores are computed only once.

The columns are the line number of the pair, a checksum of its text, and the scores by name.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from contextlib import closing
from math import isnan
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np

from regard.data.line_reader import decode_line, raw_lines
from regard.data.pair_files import Pair
from regard.data.score_filter import Floats, Scores
from regard.errors import DataError
from regard.files import atomic_file

_KEY = ("line", "checksum")


def write_scores(path: Path, pairs: Iterable[Pair], scores: Scores) -> None:
    """Write the scores of pairs."""
    with atomic_file(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.write("\t".join([*_KEY, *scores]) + "\n")
        rows = zip(*scores.values(), strict=True)
        for pair, row in zip(pairs, rows, strict=True):
            values = (f"{value:.6g}" for value in row)
            file.write("\t".join([str(pair.line), _checksum(pair), *values]) + "\n")


def read_scores(path: Path, pairs: Iterable[Pair]) -> dict[str, Floats]:
    """The scores of pairs, which must be among those that the file was written for."""
    with closing(raw_lines(path)) as lines:
        rows = enumerate((decode_line(line, path, n) for n, line in enumerate(lines, 1)), 1)
        _, header = next(rows, (1, ""))
        names = header.split("\t")
        if tuple(names[: len(_KEY)]) != _KEY or len(names) == len(_KEY):
            raise DataError(
                f"{path} has no scores: its first line must be {' '.join(_KEY)} and the names of "
                "scores, separated by tabs. Give a file that --write-scores wrote."
            )
        values = array("d")
        parsed = (_parse(row, number, len(names), path) for number, row in rows)
        for pair in pairs:
            row = next((row for row in parsed if row.line >= pair.line), None)
            if row is None or (row.line, row.checksum) != (pair.line, _checksum(pair)):
                raise DataError(
                    f"{path} has no scores of the pair in line {pair.line} of the corpus. The "
                    "corpus or the filters have changed; compute the scores again."
                )
            values.extend(row.scores)
    columns = np.array(values).reshape(-1, len(names) - len(_KEY)).T
    return dict(zip(names[len(_KEY) :], columns, strict=True))


class _Row(NamedTuple):
    line: int
    checksum: str
    scores: list[float]


def _parse(row: str, number: int, columns: int, path: Path) -> _Row:
    """A row of the file; `number` is its line there."""
    fields = row.split("\t")
    try:
        scores = [*map(float, fields[len(_KEY) :])]
        if len(fields) != columns or any(map(isnan, scores)):
            raise ValueError
        return _Row(int(fields[0]), fields[1], scores)
    except ValueError:
        raise DataError(
            f"{path}, line {number}: not {columns} columns with a line number, a checksum and "
            "scores. Compute the scores again."
        ) from None


def _checksum(pair: Pair) -> str:
    return f"{crc32(pair.source.encode(), crc32(pair.target.encode())):08x}"
