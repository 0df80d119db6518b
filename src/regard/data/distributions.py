"""A teacher's distributions: the likeliest words at each place of a target, and how likely each is.

`train.distributions` in a distilled folder holds one record for each place of the training
targets, in the store's order. A place is a target subword, as the store cuts it, or its end; a
record is so many ids, best first, and as many probabilities in half precision.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.content import verify_file
from regard.data.rows import Rows, mapped, offsets
from regard.data.store import Store
from regard.errors import DataError
from regard.files import whole_file

DISTRIBUTIONS = "train.distributions"
_REMEDY = "Make a folder with `regard distill --distributions`."


def records(dtype: str, count: int) -> np.dtype[Any]:
    """The type of a place: so many "ids" (of the store's type) and their "probabilities"."""
    return np.dtype([("ids", dtype, (count,)), ("probabilities", "float16", (count,))])


def write_distributions(
    path: Path, dtype: str, pairs: Iterable[tuple[NDArray[Any], NDArray[Any]]]
) -> None:
    """Ids and probabilities of pair after pair, each (places, count), to a file of its own."""
    with whole_file(path) as temporary, temporary.open("wb") as file:
        for ids, probabilities in pairs:
            places = np.empty(len(ids), dtype=records(dtype, ids.shape[1]))
            places["ids"], places["probabilities"] = ids, probabilities
            file.write(places.tobytes())


def read_distributions(store: Store) -> Rows:
    """For each training pair, a record for each target subword and one for the end."""
    count = store.description.get("distilled", {}).get("distributions", 0)
    if not count:
        raise DataError(f"{store.folder} has no distributions of a teacher. {_REMEDY}")
    path = store.folder / DISTRIBUTIONS
    ends = offsets(store.folder, "train.target")
    begins = ends + np.arange(len(ends))  # each target has one place more, its end
    values = mapped(path, "uint8", _REMEDY)
    kind = records(store.description["dtype"], count)
    if len(values) != begins[-1] * kind.itemsize:
        raise DataError(f"{path} is of other text than the store. {_REMEDY}")
    verify_file(store.description, path, _REMEDY)
    return Rows(values.view(kind), begins)
