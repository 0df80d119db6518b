"""A teacher's distributions for knowledge distillation: top-k tokens at each target position.

`train.distributions` in a distilled folder has one record per position of the training targets,
EOS included, in the store's order: k ids, best first, and their probabilities in half precision.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.content import verify_file
from regard.data.rows import Rows, memory_map, read_offsets
from regard.data.store import Store
from regard.errors import DataError
from regard.files import atomic_file

DISTRIBUTIONS = "train.distributions"
_REMEDY = "Make a folder with `regard distill --distributions`."


def record_dtype(dtype: str, count: int) -> np.dtype[Any]:
    """The dtype of a record: `count` "ids" (of the store's dtype) and "probabilities"."""
    return np.dtype([("ids", dtype, (count,)), ("probabilities", "float16", (count,))])


def write_distributions(
    path: Path, dtype: str, pairs: Iterable[tuple[NDArray[Any], NDArray[Any]]]
) -> None:
    """Write ids and probabilities of all pairs, each (positions, count), to a file."""
    with atomic_file(path) as temporary, temporary.open("wb") as file:
        for ids, probabilities in pairs:
            rows = np.empty(len(ids), dtype=record_dtype(dtype, ids.shape[1]))
            rows["ids"], rows["probabilities"] = ids, probabilities
            file.write(rows.tobytes())


def read_distributions(store: Store) -> Rows:
    """The records of each training pair: one per target subword, and one for EOS."""
    count = store.description.get("distilled", {}).get("distributions", 0)
    if not count:
        raise DataError(f"{store.folder} has no teacher distributions. {_REMEDY}")
    path = store.folder / DISTRIBUTIONS
    ends = read_offsets(store.folder, "train.target")
    begins = ends + np.arange(len(ends))  # one more for EOS of each target
    values = memory_map(path, "uint8", _REMEDY)
    record = record_dtype(store.description["dtype"], count)
    if len(values) != begins[-1] * record.itemsize:
        raise DataError(f"{path} does not match the store. {_REMEDY}")
    verify_file(store.description, path, _REMEDY)
    return Rows(values.view(record), begins)
