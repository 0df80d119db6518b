"""The prepared store: memory-mapped token ids of a corpus.

A prepared folder has, for each part ("train", "valid") and side (see `content.py`), a file of
concatenated ids and a file of offsets; the tokenizers; and their description, `store.json`. Plain
text also has the offsets of documents. Label ids start at 1, in alphabetical order; 0 is padding.
Parts are written in a streaming manner, so memory does not grow with the corpus.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from regard.config import Tree
from regard.data.content import (
    CONTENTS,
    FORMAT,
    PAIRS,
    STORE_READER,
    Corpus,
    StoreContent,
    dtype_for,
    read_description,
    store_fingerprint,
    verify_file,
    verify_tokenizers,
)
from regard.data.directions import DirectionStatistics
from regard.data.document_context import NO_CONTEXT
from regard.data.rows import REMEDY, Rows, SideReader, read_offsets, verify_offsets
from regard.errors import DataError, ModelError
from regard.regular_files import fingerprint
from regard.settings_tree import to_tree
from regard.text.folder import compute_tokenizer_fingerprint, load_verified_tokenizers
from regard.text.tokenizer import Tokenizers


@dataclass(frozen=True)
class Part:
    """The sentence pairs of one part ("train" or "valid"), ordered by corpus."""

    source: Rows
    target: Rows
    corpora: tuple[Corpus, ...]
    has_target_context: bool = False  # whether targets begin with previous ones of a document
    fertilities: Rows | None = None  # per source id, if loaded
    distributions: Rows | None = None  # per target id and EOS, if loaded

    @property
    def sides(self) -> tuple[Rows, Rows]:
        """Source and target."""
        return self.source, self.target

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True)
class Text:
    """Plain text: the same ids as lines and as documents.

    A line ends with a line break, and the last line of a document with EOS.
    """

    lines: Rows
    documents: Rows


@dataclass(frozen=True)
class LabelledPart:
    """Words with a label each, or one or two texts with one label."""

    text: Rows  # concatenated ids of the words or texts of each example
    sizes: Rows  # number of ids of each word or text
    labels: Rows

    def __len__(self) -> int:
        return len(self.text)


class Store:
    """Reader of a prepared folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        parsed, self.description = read_description(folder)
        self.content = parsed.content  # key of `CONTENTS`
        self.vocabulary = parsed.vocabulary
        self.languages: dict[str, str | None] = to_tree(parsed.languages)
        self.document_context = NO_CONTEXT  # of each example
        if parsed.document_context.size:
            longest = parsed.parts["train"]["longest_target"]
            self.document_context = replace(parsed.document_context, longest_target=longest)
        self.fingerprint = parsed.fingerprint  # equal for equal content
        self._verified: set[str] = set()
        try:
            self.tokenizers = load_verified_tokenizers(folder, parsed.tokenizer, self.description)
        except ModelError as error:
            raise DataError(f"{folder} is damaged: {error} {REMEDY}") from None
        verify_tokenizers(parsed, self.description, self.tokenizers, folder)
        if parsed.dtype != dtype_for(self.tokenizers):
            raise STORE_READER.content_error(
                folder / "store.json", "dtype does not match the vocabulary"
            )

    def has(self, part: str) -> bool:
        """Whether the store has a part."""
        return part in self.description["parts"]

    @property
    def directions(self) -> tuple[DirectionStatistics, ...]:
        """The directions of the training pairs; none if sources have no target tags."""
        listed = self.description["parts"]["train"].get("directions", [])
        return tuple(DirectionStatistics(**direction) for direction in listed)

    def refuse_document_context(self, command: str) -> None:
        """Raise an error for examples with document context, which a command does not support."""
        if self.document_context.size:
            raise DataError(
                f"{self.folder} has examples with document context, which {command} does not "
                "support. Prepare the same text without --source-context and --target-context."
            )

    def rows(self, part: str) -> dict[str, SideReader]:
        """All sides of a part by name, verified on first access."""
        sides = CONTENTS[self.content].sides
        ids = self.description["dtype"]
        rows = {
            side.name: SideReader(self.folder, f"{part}.{side.name}", side.dtype(ids))
            for side in sides
        }
        if part not in self._verified:
            self._verify(part, rows)
            self._verified.add(part)
        return rows

    def part(self, name: str) -> Part:
        """The sentence pairs of a part."""
        if self.content != PAIRS.name:
            raise DataError(
                f"{self.folder} contains {CONTENTS[self.content].title}, but sentence pairs "
                "are required. Use a folder prepared with --source and --target."
            )
        rows = self.rows(name)
        corpora = self._corpora(name, len(rows["source"]))
        has_target_context = self.document_context.target > 0
        return Part(rows["source"], rows["target"], corpora, has_target_context)

    def text(self, name: str) -> Text:
        """The plain text of a part."""
        lines = self.rows(name)["text"]
        documents, ids = read_offsets(self.folder, f"{name}.documents"), lines.flat()
        verify_offsets(
            self.folder, f"{name}.documents", f"{name}.text", int(documents[-1]), len(ids)
        )
        path = self.folder / f"{name}.documents.offsets"
        verify_file(self.description, path, REMEDY)
        return Text(lines, Rows(ids, documents))

    def labelled(self, name: str) -> LabelledPart:
        """The labelled examples of a part."""
        return LabelledPart(**self.rows(name))

    def _verify(self, part: str, rows: Mapping[str, SideReader]) -> None:
        """Raise an error if a part does not match its description."""
        content, expected = CONTENTS[self.content], self.description["parts"][part]
        sizes = {
            "source": self.vocabulary.source,
            "target": self.vocabulary.target,
            "labels": len(self.vocabulary.labels) + 1,
        }
        for side in content.sides:
            largest, size = rows[side.name].flat().max(initial=0), sizes.get(side.values)
            if size is not None and largest >= size:
                raise DataError(
                    f"{self.folder / part}.{side.name}.ids has ids up to {largest}, but the "
                    f"vocabulary size is {size}. {REMEDY}"
                )
        digests = [side.digest for side in rows.values()]
        if fingerprint([*digests, *corpus_sizes(expected)]) != expected["digest"]:
            raise DataError(
                f"The files {part}.*.ids in {self.folder} are not those that were prepared: their "
                f"digest differs from that in store.json. {REMEDY}"
            )
        for name, number in content.counted(rows).items():
            if expected[name] != number:
                problem = f"parts.{part}.{name} is {expected[name]}, not {number}"
                raise STORE_READER.content_error(self.folder / "store.json", problem)

    def _corpora(self, name: str, pairs: int) -> tuple[Corpus, ...]:
        """The corpora of a part; stores of early versions do not list them."""
        unnamed = {"source": "", "target": "", "tag": "", "pairs": pairs}
        listed = self.description["parts"][name].get("corpora", [unnamed])
        corpora = tuple(Corpus(**corpus) for corpus in listed)
        total = sum(map(len, corpora))
        if total != pairs:
            raise DataError(
                f"{self.folder} is damaged: its corpora have {total} pairs, and {name} has "
                f"{pairs}. {REMEDY}"
            )
        return corpora


def corpus_sizes(part: Mapping[str, Any]) -> list[bytes]:
    """The sizes of several corpora of pairs, as part of the digest."""
    corpora = part.get("corpora", [])
    several = len(corpora) > 1 and not isinstance(corpora[0], str)
    return [str(corpus["pairs"]).encode() for corpus in corpora] if several else []


class SideWriter:
    """Writes the ids and offsets of one side."""

    def __init__(self, folder: Path, name: str, dtype: str) -> None:
        self._dtype = dtype
        self._ids = (folder / f"{name}.ids").open("wb")
        self._offsets = (folder / f"{name}.offsets").open("wb")
        self._digest = hashlib.sha256()
        self.tokens = self.longest = 0  # of ids
        self._offsets.write(np.int64(0).tobytes())

    def append(self, ids: Sequence[int]) -> None:
        """Append a row."""
        try:
            data = np.asarray(ids, dtype=self._dtype).tobytes()
        except OverflowError as error:
            raise DataError(f"{self._ids.name} cannot store a value: {error}.") from None
        self._ids.write(data)
        self._digest.update(data + b"\n")
        self.tokens += len(ids)
        self.longest = max(self.longest, len(ids))
        self._offsets.write(np.int64(self.tokens).tobytes())

    @property
    def digest(self) -> bytes:
        """A digest of the written ids."""
        return self._digest.digest()

    def __enter__(self) -> SideWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self._ids.close()
        self._offsets.close()


class PartWriter:
    """Writes all sides of one part."""

    def __init__(self, folder: Path, part: str, content: StoreContent, ids: str) -> None:
        """`ids` is the dtype of ids."""
        self.sides = {
            side.name: SideWriter(folder, f"{part}.{side.name}", side.dtype(ids))
            for side in content.sides
        }
        self.examples = 0

    def append(self, rows: Mapping[str, Sequence[int]]) -> None:
        """Append an example: a row for each side."""
        for name, row in rows.items():
            self.sides[name].append(row)
        self.examples += 1

    def digest(self, more: Iterable[bytes] = ()) -> str:
        """A digest of all sides, and of additional content."""
        return fingerprint([*(side.digest for side in self.sides.values()), *more])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for side in self.sides.values():
            side.__exit__(*error)


def describe_store(
    parts: Tree,
    tokenizers: Tokenizers,
    languages: Mapping[str, str | None],
    content: str = PAIRS.name,
    labels: Sequence[str] = (),
) -> Tree:
    """The content of `store.json` for parts, tokenizers, languages and labels."""
    settings = to_tree(tokenizers.config)
    digests = [part["digest"] for part in parts.values()]
    return {
        "format": FORMAT,
        "content": content,
        "languages": dict(languages),
        "tokenizer": settings,
        "tokenizer_fingerprint": compute_tokenizer_fingerprint(tokenizers.files(), settings),
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
