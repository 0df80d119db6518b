"""The prepared store: a corpus as ids on the disk, mapped into memory, never read whole.

A prepared folder holds, for each part ("train", "valid") and side ("source", "target"), one file
of ids laid end to end and one of offsets; the tokenizers; and `store.json`, which describes them.
Running text has one side, "text", and offsets of its lines and of its documents; labelled text is
described in `label_store.py`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Literal

import numpy as np

from regard.config import Tree, as_tree
from regard.data.rows import Rows, Sentences, offsets, refuse_unequal
from regard.errors import ConfigError, DataError, ModelError
from regard.text.folder import described_tokenizers
from regard.text.tokenizer import Tokenizers

FORMAT = 1
Side = Literal["source", "target"]
Content = Literal["pairs", "text", "tagged", "labelled"]
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
        self.description = _description(folder)
        try:
            self.tokenizers = described_tokenizers(folder, self.description)
        except (KeyError, ConfigError, ModelError) as error:
            raise DataError(f"{folder} is damaged: {error} Run `regard prepare` again.") from None

    @property
    def languages(self) -> dict[str, str | None]:
        """The languages of source and target, where they were named."""
        return dict(self.description["languages"])

    @property
    def fingerprint(self) -> str:
        """Equal for equal contents."""
        return str(self.description["fingerprint"])

    @property
    def content(self) -> Content:
        """What was prepared: pairs of sentences, running text, or words or texts with labels."""
        content: Content = self.description.get("content", "pairs")
        return content

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
        return Part(source, target, self._corpora(name, len(source)))

    def text(self, name: str) -> Text:
        """The running text of a part."""
        lines = Sentences(self.folder, f"{name}.text", self.description["dtype"])
        documents, ids = offsets(self.folder, f"{name}.documents"), lines.flat()
        refuse_unequal(
            self.folder, f"{name}.documents", f"{name}.text", int(documents[-1]), len(ids)
        )
        return Text(lines, Rows(ids, documents))

    def _corpora(self, name: str, pairs: int) -> tuple[Corpus, ...]:
        """The corpora of a part; a store from before there could be several has one."""
        unnamed = {"source": "", "target": "", "tag": "", "pairs": pairs}
        listed = self.description["parts"][name].get("corpora", [unnamed])
        ends = [0, *accumulate(corpus["pairs"] for corpus in listed)]
        if ends[-1] != pairs:
            raise DataError(
                f"{self.folder} is damaged: its corpora have {ends[-1]} pairs, and {name} has "
                f"{pairs}. Run `regard prepare` again."
            )
        return tuple(
            Corpus(corpus["source"], corpus["target"], corpus["tag"], begin, end)
            for corpus, (begin, end) in zip(listed, pairwise(ends), strict=True)
        )


def _description(folder: Path) -> Tree:
    path = folder / "store.json"
    if not path.is_file():
        raise DataError(
            f"{folder} is not a prepared folder: it has no store.json. "
            "Make one with `regard prepare --out`."
        )
    try:
        description: Tree = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        description = {}
    if not isinstance(description, dict) or not description:
        raise DataError(f"{path} is damaged. Run `regard prepare` again.")
    if description.get("format") != FORMAT:
        raise DataError(
            f"{folder} has format {description.get('format')}, and this regard reads {FORMAT}. "
            "Run `regard prepare` again."
        )
    return description


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


def dtype_for(tokenizers: Tokenizers) -> str:
    """The smallest type that holds all ids."""
    largest = max(tokenizers.source.vocab_size, tokenizers.target.vocab_size)
    return "uint16" if largest <= 2**16 else "uint32"


def describe(
    parts: Tree,
    tokenizers: Tokenizers,
    languages: Mapping[str, str | None],
    content: Content = "pairs",
    labels: Sequence[str] = (),
) -> Tree:
    """What `store.json` says of a folder with these parts, and with labels of these names."""
    contents = [part["digest"].encode() for part in parts.values()]
    contents += [tokenizers.source.model, tokenizers.target.model]
    contents += [json.dumps(as_tree(tokenizers.config)).encode()]
    contents += [label.encode() for label in labels]
    return {
        "format": FORMAT,
        "content": content,
        "languages": dict(languages),
        "tokenizer": as_tree(tokenizers.config),
        "vocabulary": {
            "source": tokenizers.source.vocab_size,
            "target": tokenizers.target.vocab_size,
            "joint": tokenizers.config.joint,
            **({"labels": list(labels)} if labels else {}),
        },
        "dtype": dtype_for(tokenizers),
        "parts": parts,
        "fingerprint": fingerprint(contents),
    }


def fingerprint(contents: Iterable[bytes]) -> str:
    """One short text that differs when any of the contents does."""
    digests = (hashlib.sha256(content).digest() for content in contents)
    return hashlib.sha256(b"".join(digests)).hexdigest()[:32]
