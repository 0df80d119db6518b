"""Writes a prepared store, part by part; memory does not grow with the corpus."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from regard.config import Tree, as_tree
from regard.data.store_description import (
    FORMAT,
    Content,
    dtype_for,
    fingerprint,
    store_fingerprint,
)
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
        data = np.asarray(ids, dtype=self._dtype).tobytes()
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
    """Writes the pairs of one part, corpus after corpus, and describes what it wrote."""

    def __init__(
        self, folder: Path, name: str, dtype: str, corpora: Iterable[tuple[str, str, str]]
    ) -> None:
        """`corpora` are the names of source and target and the tag of each."""
        self._source = SideWriter(folder, f"{name}.source", dtype)
        self._target = SideWriter(folder, f"{name}.target", dtype)
        self._corpora: list[Tree] = [
            {"source": source, "target": target, "tag": tag, "pairs": 0}
            for source, target, tag in corpora
        ]

    def append(self, corpus: int, source: Sequence[int], target: Sequence[int]) -> None:
        """One more pair, of the corpus with this number."""
        self._source.append(source)
        self._target.append(target)
        self._corpora[corpus]["pairs"] += 1

    def description(self) -> Tree:
        """What `store.json` says of the part."""
        sizes = [corpus["pairs"] for corpus in self._corpora]
        contents = [self._source.digest, self._target.digest]
        if len(sizes) > 1:  # where one corpus ends and the next begins is content, too
            contents += [str(size).encode() for size in sizes]
        return {
            "pairs": sum(sizes),
            "corpora": self._corpora,
            "source_tokens": self._source.tokens,
            "target_tokens": self._target.tokens,
            "longest_source": self._source.longest,
            "longest_target": self._target.longest,
            "digest": fingerprint(contents),
        }

    def __enter__(self) -> PartWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self._source.__exit__()
        self._target.__exit__()


class TextWriter:
    """Writes the running text of one part, and describes what it wrote."""

    def __init__(self, folder: Path, name: str, tokenizers: Tokenizers) -> None:
        self._lines = SideWriter(folder, f"{name}.text", dtype_for(tokenizers))
        self._documents = (folder / f"{name}.documents.offsets").open("wb")
        self._documents.write(np.int64(0).tobytes())
        self.documents = 0

    def append(self, ids: Sequence[int], *, ends: bool) -> None:
        """One more line, its break included, which may be the last of a document."""
        self._lines.append(ids)
        if ends:
            self._documents.write(np.int64(self._lines.tokens).tobytes())
            self.documents += 1

    def description(self) -> Tree:
        """What `store.json` says of the part."""
        return {
            "documents": self.documents,
            "tokens": self._lines.tokens,
            "longest_line": self._lines.longest,
            "digest": fingerprint([self._lines.digest]),
        }

    def __enter__(self) -> TextWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self._lines.__exit__()
        self._documents.close()


def describe(
    parts: Tree,
    tokenizers: Tokenizers,
    languages: Mapping[str, str | None],
    content: Content = "pairs",
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
