"""The prepared store: a corpus as ids on the disk, mapped into memory, never read whole.

A prepared folder holds, for each part ("train", "valid") and side ("source", "target"), one file
of ids laid end to end and one of offsets; the tokenizers; and `store.json`, which describes them.
Running text has one side, "text", and offsets of its lines and of its documents; labelled text is
described in `label_store.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Literal

from regard.config import as_tree
from regard.data.rows import Rows, Sentences, offsets, refuse_unequal
from regard.data.store_description import (
    STORE_READER,
    Vocabulary,
    dtype_for,
    read_description,
    refuse_other_tokenizers,
    verify_file,
)
from regard.data.store_description import Content as Content
from regard.data.store_description import fingerprint as fingerprint
from regard.errors import ConfigError, DataError, ModelError
from regard.text.folder import checked_tokenizers

Side = Literal["source", "target"]
# What each content is called, and the options that prepare it.
# What is in a store, by what it is prepared, and a preset that reads it.
_CONTENTS: dict[Content, tuple[str, str, str]] = {
    "pairs": ("pairs of sentences", "--source and --target", "tiny"),
    "text": ("running text", "--text", "gpt-tiny"),
    "tagged": ("words with labels", "--tagged", "tagger-tiny"),
    "labelled": ("texts with labels", "--labelled", "classifier-tiny"),
}


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

    source: Sentences
    target: Sentences
    corpora: tuple[Corpus, ...]
    fertilities: Rows | None = None  # for each source id, if somebody asked for them
    distributions: Rows | None = None  # for each target id and each end, likewise

    @property
    def sides(self) -> tuple[Sentences, Sentences]:
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
    def content(self) -> Content:
        """What was prepared: pairs of sentences, running text, or words or texts with labels."""
        return self._checked.content

    def refuse_other_content(self, wanted: Content, kind: str) -> None:
        """A model of some kind can read only one of them."""
        if self.content != wanted:
            (held, _, preset), (things, options, _) = _CONTENTS[self.content], _CONTENTS[wanted]
            raise ConfigError(
                f"{self.folder} holds {held}, and model.kind={kind} reads {things}. Prepare with "
                f"{options}, or take a model that reads {held}, such as --preset {preset}."
            )

    def has(self, part: str) -> bool:
        """Whether there is such a part."""
        return part in self.description["parts"]

    def part(self, name: str) -> Part:
        """The pairs of a part."""
        if self.content != "pairs":
            raise DataError(
                f"{self.folder} holds {_CONTENTS[self.content][0]}, and pairs of sentences are "
                "needed here. "
                "Give a folder that was prepared with --source and --target."
            )
        dtype = self.description["dtype"]
        source, target = (
            Sentences(self.folder, f"{name}.{side}", dtype) for side in ("source", "target")
        )
        corpora = self._corpora(name, len(source))
        sizes = [str(len(corpus)).encode() for corpus in corpora]
        vocabulary = self.vocabulary
        self.verify(
            name,
            {"source": (source, vocabulary.source), "target": (target, vocabulary.target)},
            {"pairs": len(source), "longest_source": _longest(source)},
            sizes if len(sizes) > 1 else [],
        )
        return Part(source, target, corpora)

    def text(self, name: str) -> Text:
        """The running text of a part."""
        lines = Sentences(self.folder, f"{name}.text", self.description["dtype"])
        documents, ids = offsets(self.folder, f"{name}.documents"), lines.flat()
        refuse_unequal(
            self.folder, f"{name}.documents", f"{name}.text", int(documents[-1]), len(ids)
        )
        path = self.folder / f"{name}.documents.offsets"
        verify_file(self.description, path, STORE_READER.remedy)
        sides = {"text": (lines, self.vocabulary.source)}
        self.verify(name, sides, {"longest_line": _longest(lines)})
        return Text(lines, Rows(ids, documents))

    def verify(
        self,
        part: str,
        sides: Mapping[str, tuple[Rows, int]],
        numbers: Mapping[str, int],
        more: Sequence[bytes] = (),
    ) -> None:
        """Raise an error if a part is not what was prepared; each part is read once for it.

        Each side comes with the number of ids that there are, `numbers` are what the description
        says of the part, and `more` is what its digest covers beside the sides.
        """
        if part in self._verified:
            return
        for side, (rows, size) in sides.items():
            if rows.flat().max(initial=0) >= size:
                raise DataError(
                    f"{self.folder / part}.{side}.ids has ids up to {rows.flat().max()}, and there "
                    f"are {size}. Run `regard prepare` again, with --overwrite."
                )
        told = self.description["parts"][part]
        digests = [rows.digest for rows, _ in sides.values()]
        if fingerprint([*digests, *more]) != told["digest"]:
            raise DataError(
                f"The files {part}.*.ids in {self.folder} are not those that were prepared: their "
                "digest differs from that in store.json. Run `regard prepare` again, with "
                "--overwrite."
            )
        for name, number in numbers.items():
            if told[name] != number:
                raise STORE_READER.wrong(
                    self.folder / "store.json", f"parts.{part}.{name} is {told[name]}, not {number}"
                )
        self._verified.add(part)

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


def _longest(rows: Rows) -> int:
    return int(rows.lengths().max(initial=0))
