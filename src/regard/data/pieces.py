"""Running text in pieces that a model can take at once.

A piece lies within one document, so nothing is read across a document's end. A long document is cut
anew in each epoch: its first piece is shorter by a number that is drawn for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.data.rows import Rows

Places = NDArray[np.int64]


@dataclass(frozen=True)
class Pieces:
    """Where pieces begin and end among the ids of a text, and which of them begin a document."""

    begins: Places
    ends: Places
    firsts: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.begins)

    def lengths(self) -> Places:
        """How many ids each has."""
        return self.ends - self.begins


def cut(
    documents: Rows,
    longest: int,
    generator: np.random.Generator | None = None,
    *,
    ends: bool = True,
) -> Pieces:
    """All pieces of a text, none with more than `longest` ids; `ends`: with the ends of documents.

    Without a generator, all pieces of a document but its last are that long.
    """
    lengths = documents.lengths()
    begin = np.cumsum(lengths) - lengths
    lengths = lengths if ends else lengths - 1
    missing = np.zeros_like(lengths)  # of the first piece
    if generator is not None:
        missing = generator.integers(longest, size=len(lengths)) * (lengths > longest)
    counts = -(-(lengths + missing) // longest)
    document = np.repeat(np.arange(len(lengths)), counts)
    number = np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts)
    first = number * longest - missing[document]
    return Pieces(
        begin[document] + np.maximum(first, 0),
        begin[document] + np.minimum(first + longest, lengths[document]),
        first <= 0,
    )
