"""The prepared store: a corpus as ids on the disk, mapped into memory, never read whole.

A prepared folder holds, for each part ("train", "valid") and side (see `content.py`), one file of
ids laid end to end and one of offsets; the tokenizers; and `store.json`, which describes them.
Running text also has the offsets of its documents. Labels are numbered from 1 in the order of their
names; 0 is no label, as `SPECIAL.pad` is no word. A part is written example by example, so that
memory does not grow with the corpus.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from regard.config import Tree, as_tree
from regard.data.content import (
    CONTENTS,
    FORMAT,
    PAIRS,
    STORE_READER,
    Corpus,
    StoreContent,
    dtype_for,
    read_description,
    refuse_other_tokenizers,
    store_fingerprint,
    verify_file,
)
from regard.data.rows import REMEDY, Rows, Sentences, offsets, refuse_unequal
from regard.errors import DataError, ModelError
from regard.regular import fingerprint
from regard.text.folder import checked_tokenizers, fingerprint_of
from regard.text.tokenizer import Tokenizers


@dataclass(frozen=True)
class Part:
    """The pairs of one part, corpus after corpus."""

    source: Rows
    target: Rows
    corpora: tuple[Corpus, ...]
    fertilities: Rows | None = None  # for each source id, if somebody asked for them
    distributions: Rows | None = None  # for each target id and each end, likewise

    @property
    def sides(self) -> tuple[Rows, Rows]:
        """Source and target."""
        return self.source, self.target

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True)
class Text:
    """Running text: the same ids as lines, each with its break, and as documents with their ends.

    A line ends with a line break, and the last of a document with the end mark.
    """

    lines: Rows
    documents: Rows


@dataclass(frozen=True)
class LabelledPart:
    """Sentences of words with a label each, or one or two texts with one label."""

    text: Rows  # the ids of all words or texts of an example, end to end
    sizes: Rows  # how many ids each of them has
    labels: Rows

    def __len__(self) -> int:
        return len(self.text)


class Store:
    """A prepared folder, opened for reading."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        described, self.description = read_description(folder)
        self.content = described.content  # its name in `CONTENTS`
        self.vocabulary = described.vocabulary
        self.languages: dict[str, str | None] = as_tree(described.languages)
        self.fingerprint = described.fingerprint  # equal for equal contents
        self._verified: set[str] = set()
        try:
            self.tokenizers = checked_tokenizers(folder, described.tokenizer, self.description)
        except ModelError as error:
            raise DataError(f"{folder} is damaged: {error} {REMEDY}") from None
        refuse_other_tokenizers(described, self.description, self.tokenizers, folder)
        if described.dtype != dtype_for(self.tokenizers):
            raise STORE_READER.wrong(folder / "store.json", "dtype does not fit the vocabulary")

    def has(self, part: str) -> bool:
        """Whether there is such a part."""
        return part in self.description["parts"]

    def rows(self, part: str) -> dict[str, Sentences]:
        """All sides of a part, by name; what is not as it was prepared is refused."""
        sides = CONTENTS[self.content].sides
        ids = self.description["dtype"]
        rows = {
            side.name: Sentences(self.folder, f"{part}.{side.name}", side.dtype(ids))
            for side in sides
        }
        if part not in self._verified:
            self._verify(part, rows)
            self._verified.add(part)
        return rows

    def part(self, name: str) -> Part:
        """The pairs of a part."""
        if self.content != PAIRS.name:
            raise DataError(
                f"{self.folder} holds {CONTENTS[self.content].title}, and pairs of sentences are "
                "needed here. Give a folder that was prepared with --source and --target."
            )
        rows = self.rows(name)
        return Part(rows["source"], rows["target"], self._corpora(name, len(rows["source"])))

    def text(self, name: str) -> Text:
        """The running text of a part."""
        lines = self.rows(name)["text"]
        documents, ids = offsets(self.folder, f"{name}.documents"), lines.flat()
        refuse_unequal(
            self.folder, f"{name}.documents", f"{name}.text", int(documents[-1]), len(ids)
        )
        path = self.folder / f"{name}.documents.offsets"
        verify_file(self.description, path, REMEDY)
        return Text(lines, Rows(ids, documents))

    def labelled(self, name: str) -> LabelledPart:
        """The labelled examples of a part."""
        return LabelledPart(**self.rows(name))

    def _verify(self, part: str, rows: Mapping[str, Sentences]) -> None:
        """Raise an error if a part is not what was prepared."""
        content, described = CONTENTS[self.content], self.description["parts"][part]
        sizes = {
            "source": self.vocabulary.source,
            "target": self.vocabulary.target,
            "labels": len(self.vocabulary.labels) + 1,
        }
        for side in content.sides:
            largest, size = rows[side.name].flat().max(initial=0), sizes.get(side.values)
            if size is not None and largest >= size:
                raise DataError(
                    f"{self.folder / part}.{side.name}.ids has ids up to {largest}, and there are "
                    f"{size}. {REMEDY}"
                )
        digests = [side.digest for side in rows.values()]
        if fingerprint([*digests, *corpus_sizes(described)]) != described["digest"]:
            raise DataError(
                f"The files {part}.*.ids in {self.folder} are not those that were prepared: their "
                f"digest differs from that in store.json. {REMEDY}"
            )
        for name, number in content.counted(rows).items():
            if described[name] != number:
                problem = f"parts.{part}.{name} is {described[name]}, not {number}"
                raise STORE_READER.wrong(self.folder / "store.json", problem)

    def _corpora(self, name: str, pairs: int) -> tuple[Corpus, ...]:
        """The corpora of a part; a store from before there could be several has one."""
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
    """Where one of several corpora of pairs ends and the next begins is content, too."""
    corpora = part.get("corpora", [])
    several = len(corpora) > 1 and not isinstance(corpora[0], str)
    return [str(corpus["pairs"]).encode() for corpus in corpora] if several else []


class SideWriter:
    """Appends sentences to the two files of one side."""

    def __init__(self, folder: Path, name: str, dtype: str) -> None:
        self._dtype = dtype
        self._ids = (folder / f"{name}.ids").open("wb")
        self._offsets = (folder / f"{name}.offsets").open("wb")
        self._digest = hashlib.sha256()
        self.tokens = self.longest = 0  # ids written so far
        self._offsets.write(np.int64(0).tobytes())

    def append(self, ids: Sequence[int]) -> None:
        """One more sentence."""
        try:
            data = np.asarray(ids, dtype=self._dtype).tobytes()
        except OverflowError as error:
            raise DataError(f"{self._ids.name} cannot hold a number: {error}.") from None
        self._ids.write(data)
        self._digest.update(data + b"\n")
        self.tokens += len(ids)
        self.longest = max(self.longest, len(ids))
        self._offsets.write(np.int64(self.tokens).tobytes())

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
