"""The prepared store: a corpus as ids on the disk, mapped into memory, never read whole.

A prepared folder holds, for each part ("train", "valid") and side (see `content.py`), one file of
ids laid end to end and one of offsets; the tokenizers; and `store.json`, which describes them.
Running text also has the offsets of its documents. Labels are numbered from 1 in the order of their
names; 0 is no label, as `SPECIAL.pad` is no word.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from regard.config import as_tree
from regard.data.content import CONTENTS, PAIRS, Side
from regard.data.rows import Rows, Sentences, offsets, refuse_unequal
from regard.data.store_description import (
    STORE_READER,
    Vocabulary,
    dtype_for,
    read_description,
    refuse_other_tokenizers,
    verify_file,
)
from regard.data.store_description import fingerprint as fingerprint
from regard.errors import DataError, ModelError
from regard.text.folder import checked_tokenizers


@dataclass(frozen=True)
class Corpus:
    """The pairs begin <= index < end of a part, which came from one pair of files."""

    source: str  # the files' names
    target: str
    tag: str
    begin: int
    end: int

    def __len__(self) -> int:
        return self.end - self.begin

    def __str__(self) -> str:
        return " ".join(filter(None, (self.source, self.target, self.tag)))


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
        self._checked, self.description = read_description(folder)
        self._verified: set[str] = set()
        try:
            self.tokenizers = checked_tokenizers(folder, self._checked.tokenizer, self.description)
        except ModelError as error:
            raise DataError(
                f"{folder} is damaged: {error} Run `regard prepare` again, with --overwrite."
            ) from None
        refuse_other_tokenizers(self._checked, self.description, self.tokenizers, folder)
        if self._checked.dtype != dtype_for(self.tokenizers):
            raise STORE_READER.wrong(folder / "store.json", "dtype does not fit the vocabulary")

    @property
    def vocabulary(self) -> Vocabulary:
        """How many ids and which labels there are."""
        return self._checked.vocabulary

    @property
    def languages(self) -> dict[str, str | None]:
        """The languages of source and target, where they were named."""
        return as_tree(self._checked.languages)

    @property
    def fingerprint(self) -> str:
        """Equal for equal contents."""
        return str(self.description["fingerprint"])

    @property
    def content(self) -> str:
        """The name of what was prepared, in `CONTENTS`."""
        return self._checked.content

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
        verify_file(self.description, path, STORE_READER.remedy)
        return Text(lines, Rows(ids, documents))

    def labelled(self, name: str) -> LabelledPart:
        """The labelled examples of a part."""
        return LabelledPart(**self.rows(name))

    def _verify(self, part: str, rows: Mapping[str, Sentences]) -> None:
        """Raise an error if a part is not what was prepared."""
        content, told = CONTENTS[self.content], self.description["parts"][part]
        for side in content.sides:
            self._refuse_large_ids(part, side, rows)
        digests = [side.digest for side in rows.values()]
        if fingerprint([*digests, *corpus_sizes(told)]) != told["digest"]:
            raise DataError(
                f"The files {part}.*.ids in {self.folder} are not those that were prepared: their "
                "digest differs from that in store.json. Run `regard prepare` again, with "
                "--overwrite."
            )
        for name, number in content.counted(rows).items():
            if told[name] != number:
                raise STORE_READER.wrong(
                    self.folder / "store.json", f"parts.{part}.{name} is {told[name]}, not {number}"
                )

    def _refuse_large_ids(self, part: str, side: Side, rows: Mapping[str, Sentences]) -> None:
        vocabulary, values = self.vocabulary, rows[side.name].flat()
        size = {
            "source": vocabulary.source,
            "target": vocabulary.target,
            "labels": len(vocabulary.labels) + 1,
        }.get(side.values, math.inf)
        if values.max(initial=0) >= size:
            raise DataError(
                f"{self.folder / part}.{side.name}.ids has ids up to {values.max()}, and there "
                f"are {size}. Run `regard prepare` again, with --overwrite."
            )

    def _corpora(self, name: str, pairs: int) -> tuple[Corpus, ...]:
        """The corpora of a part; a store from before there could be several has one."""
        unnamed = {"source": "", "target": "", "tag": "", "pairs": pairs}
        listed = self.description["parts"][name].get("corpora", [unnamed])
        ends = [0, *accumulate(corpus["pairs"] for corpus in listed)]
        if ends[-1] != pairs:
            raise DataError(
                f"{self.folder} is damaged: its corpora have {ends[-1]} pairs, and {name} has "
                f"{pairs}. Run `regard prepare` again, with --overwrite."
            )
        return tuple(
            Corpus(corpus["source"], corpus["target"], corpus["tag"], begin, end)
            for corpus, (begin, end) in zip(listed, pairwise(ends), strict=True)
        )


def corpus_sizes(part: Mapping[str, Any]) -> list[bytes]:
    """Where one of several corpora of pairs ends and the next begins is content, too."""
    corpora = part.get("corpora", [])
    several = len(corpora) > 1 and not isinstance(corpora[0], str)
    return [str(corpus["pairs"]).encode() for corpus in corpora] if several else []
