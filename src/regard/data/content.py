"""What a prepared store holds: its sides, its parts, and their description in `store.json`.

For each part ("train", "valid") and side there are two files: ids laid end to end, and offsets.
Fingerprints tie the description to the files beside it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from regard.config import Ge, Le, Settings, Tree
from regard.data.rows import REMEDY, Rows
from regard.errors import ConfigError, DataError
from regard.regular import file_digest, fingerprint
from regard.schema import JsonReader
from regard.text.config import TokenizerConfig
from regard.text.tokenizer import Tokenizers

FORMAT = 1
STORE_READER = JsonReader(DataError, REMEDY)
Count = Annotated[int, Ge(0), Le(2**62)]
# What a side holds; the type of ids depends on the vocabulary.
_TYPES = {"source": "", "target": "", "labels": "uint32", "counts": "uint32", "floats": "float32"}
_FURTHER = ("*.documents.offsets", "*.distributions")  # files that no digest of a part covers


@dataclass(frozen=True)
class Side:
    """One side of a part: rows of numbers, and what they are."""

    name: str
    values: str  # ids ("source", "target"), numbers of "labels", "counts" (0 to 2^32-1) or "floats"

    def __post_init__(self) -> None:
        if self.values not in _TYPES:
            raise ConfigError(
                f"The side {self.name} holds {self.values!r}. Use one of {', '.join(_TYPES)}."
            )

    def dtype(self, ids: str) -> str:
        """The type of its numbers, where ids are of the type `ids`."""
        return _TYPES[self.values] or ids


@dataclass(frozen=True)
class Corpus(Settings):
    """The pairs of one pair of files, which follow those of the files before."""

    source: str  # the files' names
    target: str
    tag: str
    pairs: Count

    def __len__(self) -> int:
        return self.pairs

    def __str__(self) -> str:
        return " ".join(filter(None, (self.source, self.target, self.tag)))


@dataclass(frozen=True)
class PairsDescription(Settings):
    """A part with pairs of sentences."""

    pairs: Count
    source_tokens: Count
    target_tokens: Count
    longest_source: Count
    longest_target: Count
    digest: str
    several_sentences: Annotated[float, Ge(0), Le(1)]
    found: dict[str, int] = field(default_factory=dict)
    corpora: tuple[Corpus, ...] | None = None


@dataclass(frozen=True)
class TextDescription(Settings):
    """A part with running text."""

    documents: Count
    tokens: Count
    longest_line: Count
    digest: str
    words: Count = 0
    characters: Count = 0
    corpora: tuple[str, ...] = ()


@dataclass(frozen=True)
class LabelsDescription(Settings):
    """A part with labelled words or texts."""

    examples: Count
    texts: Count
    most_texts: Count
    labels: Count
    counts: dict[str, int]
    tokens: Count
    longest: Count
    digest: str
    corpora: tuple[str, ...] = ()
    column: str | None = None


@dataclass(frozen=True)
class ExamplesDescription(Settings):
    """A part of any other content."""

    examples: Count
    digest: str
    corpora: tuple[str, ...] = ()


@dataclass(frozen=True)
class StoreContent:
    """What a store holds: how that is called, prepared and read."""

    name: str
    title: str
    options: str  # of `regard prepare`
    model: str  # options of `regard train` for a model that reads it
    sides: tuple[Side, ...]
    part: type[Settings] = ExamplesDescription
    counted: Callable[[Mapping[str, Rows]], dict[str, int]] = lambda sides: {  # as `part` has it
        "examples": len(next(iter(sides.values())))
    }


def _longest(rows: Rows) -> int:
    return int(rows.lengths().max(initial=0))


PAIRS = StoreContent(
    "pairs",
    "pairs of sentences",
    "--source and --target",
    "--preset tiny",
    (Side("source", "source"), Side("target", "target")),
    PairsDescription,
    lambda sides: {"pairs": len(sides["source"]), "longest_source": _longest(sides["source"])},
)
TEXT = StoreContent(
    "text",
    "running text",
    "--text",
    "--preset gpt-tiny",
    (Side("text", "source"),),
    TextDescription,
    lambda sides: {"longest_line": _longest(sides["text"])},
)
_LABELLED_SIDES = Side("text", "source"), Side("sizes", "counts"), Side("labels", "labels")
TAGGED = StoreContent(
    "tagged",
    "words with labels",
    "--tagged",
    "--preset tagger-tiny",
    _LABELLED_SIDES,
    LabelsDescription,
    lambda sides: {"examples": len(sides["text"]), "tokens": len(sides["text"].flat())},
)
LABELLED = StoreContent(
    "labelled",
    "texts with labels",
    "--labelled",
    "--preset classifier-tiny",
    _LABELLED_SIDES,
    LabelsDescription,
    TAGGED.counted,
)
CONTENTS = {content.name: content for content in (PAIRS, TEXT, TAGGED, LABELLED)}


@dataclass(frozen=True)
class Languages(Settings):
    """The languages of both sides, where they were named."""

    source: str | None = None
    target: str | None = None


@dataclass(frozen=True)
class Vocabulary(Settings):
    """How many ids each side has, whether they mean the same on both, and what labels there are."""

    source: Annotated[int, Ge(1), Le(2**31 - 1)]
    target: Annotated[int, Ge(1), Le(2**31 - 1)]
    joint: bool = True
    labels: tuple[str, ...] = ()  # the one with number 1 first; 0 is no label


@dataclass(frozen=True)
class StoreDescription(Settings):
    """The fields of `store.json`."""

    format: int
    languages: Languages
    tokenizer: TokenizerConfig
    vocabulary: Vocabulary
    dtype: Literal["uint16", "uint32"]
    parts: dict[str, Any]
    fingerprint: str
    content: str = "pairs"
    tokenizer_fingerprint: str | None = None  # stores of earlier versions have none
    distilled: dict[str, Any] = field(default_factory=dict)
    files: dict[str, Any] = field(default_factory=dict)  # SHA-256 of those beside the parts' sides
    checksum: str | None = None  # of the other fields; stores of earlier versions have none

    def problems(self) -> Iterator[str]:
        """There is nothing to train on without its part."""
        if "train" not in self.parts:
            yield "parts.train is missing"
        if not {*self.parts} <= {"train", "valid"}:
            yield f"parts are {', '.join(sorted(self.parts))[:100]}; known: train, valid"
        if type(self.distilled.get("distributions", 0)) is not int:
            yield "distilled.distributions must be an integer"


def read_description(folder: Path) -> tuple[StoreDescription, Tree]:
    """The description of a prepared folder, checked, and as it stands in the file."""
    path = folder / "store.json"
    if not path.is_file():
        raise DataError(
            f"{folder} is not a prepared folder: it has no store.json. "
            "Make one with `regard prepare --out`."
        )
    description, tree = STORE_READER.versioned(StoreDescription, path, FORMAT)
    if description.content not in CONTENTS:
        raise DataError(
            f"{path}: content is {description.content[:40]}, which is not registered. Known: "
            f"{', '.join(CONTENTS)}. If it is of a plugin, load that: regard --plugin FILE ... (in "
            "Python: import it); if not, update regard."
        )
    for name, part in description.parts.items():
        STORE_READER.build(CONTENTS[description.content].part, part, path, f"parts.{name}.")
    if description.checksum not in (None, _checksum(tree)):
        raise STORE_READER.wrong(path, "it was changed since it was written (checksum)")
    return description, tree


def with_checksums(tree: Tree, folder: Path) -> Tree:
    """A description with the digests of further files in its folder, and a checksum of itself."""
    paths = sorted(path for pattern in _FURTHER for path in folder.glob(pattern))
    tree = {**tree, "files": {path.name: file_digest(path) for path in paths}}
    return {**tree, "checksum": _checksum(tree)}


def _checksum(tree: Tree) -> str:
    """Of all fields but the languages, which a user may name later."""
    fields = {name: tree[name] for name in tree.keys() - {"languages", "checksum"}}
    return fingerprint([json.dumps(fields, sort_keys=True).encode()])


def verify_file(tree: Tree, path: Path, remedy: str) -> None:
    """Raise an error if a file is not the one whose digest a description has."""
    known = tree.get("files", {}).get(path.name)
    if known is not None and file_digest(path) != known:
        raise DataError(f"{path} is damaged: its digest differs from that in store.json. {remedy}")


def dtype_for(tokenizers: Tokenizers) -> str:
    """The smallest type that holds all ids."""
    largest = max(tokenizers.source.vocab_size, tokenizers.target.vocab_size)
    return "uint16" if largest <= 2**16 else "uint32"


def refuse_other_tokenizers(
    description: StoreDescription, tree: Tree, tokenizers: Tokenizers, folder: Path
) -> None:
    """Raise an error if the tokenizers are not those that the store was made with."""
    vocabulary = description.vocabulary
    sizes = tokenizers.source.vocab_size, tokenizers.target.vocab_size
    if sizes != (vocabulary.source, vocabulary.target):
        raise DataError(
            f"The tokenizer in {folder} has {sizes[0]} and {sizes[1]} ids for source and target, "
            f"and store.json says {vocabulary.source} and {vocabulary.target}. {REMEDY}"
        )
    if tokenizers.config.is_foreign:
        return  # its fingerprint is in `tokenizer_fingerprint`
    digests = [part["digest"] for part in description.parts.values()]
    labels = vocabulary.labels
    if store_fingerprint(digests, tokenizers, tree["tokenizer"], labels) != description.fingerprint:
        raise DataError(
            f"{folder} is damaged: its tokenizer or its store.json is not the one that was "
            f"prepared. {REMEDY}"
        )


def store_fingerprint(
    digests: Iterable[str], tokenizers: Tokenizers, settings: Tree, labels: Iterable[str]
) -> str:
    """Of the parts of a store, its tokenizers and their settings, and the names of labels."""
    contents = [digest.encode() for digest in digests]
    contents += [tokenizers.source.model, tokenizers.target.model]
    contents += [json.dumps(settings).encode()]
    contents += [label.encode() for label in labels]
    return fingerprint(contents)
