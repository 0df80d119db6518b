"""Writes a prepared store, part by part; memory does not grow with the corpus."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

import numpy as np

from regard.config import Tree, as_tree
from regard.data.content import PAIRS, StoreContent
from regard.data.store_description import (
    FORMAT,
    dtype_for,
    fingerprint,
    store_fingerprint,
)
from regard.errors import DataError
from regard.text.folder import fingerprint_of
from regard.text.tokenizer import Tokenizers


class SideWriter:
    """Appends sentences to the two files of one side; memory does not grow with the corpus."""

    def __init__(self, folder: Path, name: str, dtype: str) -> None:
        self._dtype = dtype
        self._ids = (folder / f"{name}.ids").open("wb")
        self._offsets = (folder / f"{name}.offsets").open("wb")
        self._digest = hashlib.sha256()
        self._end = 0
        self.longest = 0
        self._write_offset()

    def append(self, ids: Sequence[int]) -> None:
        """One more sentence."""
        try:
            data = np.asarray(ids, dtype=self._dtype).tobytes()
        except OverflowError as error:
            raise DataError(f"{self._ids.name} cannot hold a number: {error}.") from None
        self._ids.write(data)
        self._digest.update(data + b"\n")
        self._end += len(ids)
        self.longest = max(self.longest, len(ids))
        self._write_offset()

    def _write_offset(self) -> None:
        self._offsets.write(np.int64(self._end).tobytes())

    @property
    def tokens(self) -> int:
        """Ids written so far."""
        return self._end

    @property
    def digest(self) -> bytes:
        """A fingerprint of what was written."""
        return self._digest.digest()

    def __enter__(self) -> SideWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self._ids.close()
        self._offsets.close()


class PartWriter:
    """Writes the sides of one part, example by example."""

    def __init__(self, folder: Path, part: str, content: StoreContent, ids: str) -> None:
        """`ids` is the type of ids."""
        self.sides = {
            side.name: SideWriter(folder, f"{part}.{side.name}", side.dtype(ids))
            for side in content.sides
        }
        self.examples = 0

    def append(self, rows: Mapping[str, Sequence[int]]) -> None:
        """One more example: a row of each side."""
        for name, row in rows.items():
            self.sides[name].append(row)
        self.examples += 1

    def digest(self, more: Iterable[bytes] = ()) -> str:
        """A fingerprint of all sides, and of more content."""
        return fingerprint([*(side.digest for side in self.sides.values()), *more])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for side in self.sides.values():
            side.__exit__(*error)


def describe(
    parts: Tree,
    tokenizers: Tokenizers,
    languages: Mapping[str, str | None],
    content: str = PAIRS.name,
    labels: Sequence[str] = (),
) -> Tree:
    """What `store.json` says of a folder with these parts, and with labels of these names."""
    settings = as_tree(tokenizers.config)
    digests = [part["digest"] for part in parts.values()]
    return {
        "format": FORMAT,
        "content": content,
        "languages": dict(languages),
        "tokenizer": settings,
        "tokenizer_fingerprint": fingerprint_of(tokenizers.files(), settings),
        "vocabulary": {
            "source": tokenizers.source.vocab_size,
            "target": tokenizers.target.vocab_size,
            "joint": tokenizers.config.joint,
            **({"labels": list(labels)} if labels else {}),
        },
        "dtype": dtype_for(tokenizers),
        "parts": parts,
        "fingerprint": store_fingerprint(digests, tokenizers, settings, labels),
    }
