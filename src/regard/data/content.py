"""Contents of prepared stores: sides, parts, and the schema of `store.json`.

For each part ("train", "valid") and side there are two files: concatenated ids, and offsets.
Fingerprints in the description verify the other files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from regard.config import Ge, Le, Settings, Tree
from regard.data.directions import Direction, DirectionStatistics
from regard.data.document_context import NO_CONTEXT, DocumentContext
from regard.data.rows import REMEDY, Rows
from regard.errors import ConfigError, DataError
from regard.regular_files import file_digest, fingerprint
from regard.schema import JsonReader
from regard.text.config import TokenizerConfig
from regard.text.tokenizer import Tokenizers

FORMAT = 1
STORE_READER = JsonReader(DataError, REMEDY)
Count = Annotated[int, Ge(0), Le(2**62)]
# Values of a side and their types; the type of ids depends on the vocabulary size.
_TYPES = {"source": "", "target": "", "labels": "uint32", "counts": "uint32", "floats": "float32"}
_OTHER_FILES = ("*.documents.offsets", "*.distributions")  # not covered by digests of parts


@dataclass(frozen=True)
class Side:
    """One side of a part: rows of values of some kind."""

    name: str
    values: str  # ids ("source", "target"), numbers of "labels", "counts" (0 to 2^32-1) or "floats"

    def __post_init__(self) -> None:
        if self.values not in _TYPES:
            raise ConfigError(
                f"Side {self.name} has values of type {self.values!r}, but must have one of "
                f"{', '.join(_TYPES)}."
            )

    def dtype(self, ids: str) -> str:
        """The dtype of its values; `ids` is that of token ids."""
        return _TYPES[self.values] or ids


@dataclass(frozen=True)
class Corpus(Settings):
    """The pairs of one corpus; corpora are stored one after the other."""

    source: str  # the files' names
    target: str
    tag: str
    pairs: Count
    source_lang: str | None = None  # given if the store has several directions
    target_lang: str | None = None

    def __len__(self) -> int:
        return self.pairs

    def __str__(self) -> str:
        direction = str(self.direction) if self.direction else ""
        return " ".join(filter(None, (self.source, self.target, self.tag, direction)))

    @property
    def direction(self) -> Direction | None:
        """Its direction; None if the store has only one."""
        if self.source_lang is None or self.target_lang is None:
            return None
        return Direction(self.source_lang, self.target_lang)


@dataclass(frozen=True)
class PairsDescription(Settings):
    """Description of a part with sentence pairs."""

    pairs: Count
    source_tokens: Count
    target_tokens: Count
    longest_source: Count
    longest_target: Count
    digest: str
    several_sentences: Annotated[float, Ge(0), Le(1)]
    found: dict[str, int] = field(default_factory=dict)
    corpora: tuple[Corpus, ...] | None = None
    directions: tuple[DirectionStatistics, ...] = ()  # of a store with several directions
    annotated_terms: Annotated[float, Ge(0), Le(1)] = 0.0  # fraction of pairs


@dataclass(frozen=True)
class TextDescription(Settings):
    """Description of a part with plain text."""

    documents: Count
    tokens: Count
    longest_line: Count
    digest: str
    words: Count = 0
    characters: Count = 0
    corpora: tuple[str, ...] = ()


@dataclass(frozen=True)
class LabelsDescription(Settings):
    """Description of a part with labelled words or texts."""

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
    """Description of a part with other content."""

    examples: Count
    digest: str
    corpora: tuple[str, ...] = ()


@dataclass(frozen=True)
class StoreContent:
    """A type of store content: its name, sides and description, and related options."""

    name: str
    title: str
    options: str  # of `regard prepare`
    model: str  # options of `regard train` for a suitable model
    sides: tuple[Side, ...]
    part: type[Settings] = ExamplesDescription
    counted: Callable[[Mapping[str, Rows]], dict[str, int]] = (
        lambda sides: {  # fields of `part` to verify
            "examples": len(next(iter(sides.values())))
        }
    )


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
    "plain text",
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
    """The languages of source and target, if given."""

    source: str | None = None
    target: str | None = None


@dataclass(frozen=True)
class Vocabulary(Settings):
    """Vocabulary sizes, whether the vocabulary is joint, and the labels."""

    source: Annotated[int, Ge(1), Le(2**31 - 1)]
    target: Annotated[int, Ge(1), Le(2**31 - 1)]
    joint: bool = True
    labels: tuple[str, ...] = ()  # from label id 1 on; 0 is padding


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
    document_context: DocumentContext = NO_CONTEXT
    distilled: dict[str, Any] = field(default_factory=dict)
    files: dict[str, Any] = field(default_factory=dict)  # SHA-256 of other files
    checksum: str | None = None  # of the other fields; stores of earlier versions have none

    def problems(self) -> Iterator[str]:
        """Parts must be "train", and optionally "valid"."""
        if "train" not in self.parts:
            yield "parts.train is missing"
        if not {*self.parts} <= {"train", "valid"}:
            names = ", ".join(sorted(self.parts))[:100]
            yield f"parts are {names}, but must be train and valid, or train only"
        if type(self.distilled.get("distributions", 0)) is not int:
            yield "distilled.distributions must be an integer"


def read_description(folder: Path) -> tuple[StoreDescription, Tree]:
    """The validated description of a prepared folder, and the content of `store.json`."""
    path = folder / "store.json"
    if not path.is_file():
        raise DataError(
            f"{folder} is not a prepared folder: it has no store.json. "
            "Make one with `regard prepare --out`."
        )
    description, tree = STORE_READER.read_versioned(StoreDescription, path, FORMAT)
    if description.content not in CONTENTS:
        raise DataError(
            f"{path}: content is {description.content[:40]}, which is not registered. Known: "
            f"{', '.join(CONTENTS)}. If it belongs to a plugin, load it with regard --plugin FILE "
            "... (in Python: import it); if not, update regard."
        )
    for name, part in description.parts.items():
        STORE_READER.build(CONTENTS[description.content].part, part, path, f"parts.{name}.")
    if description.checksum not in (None, _checksum(tree)):
        raise STORE_READER.content_error(path, "it was changed after it was written (checksum)")
    return description, tree


def with_checksums(tree: Tree, folder: Path) -> Tree:
    """A description with digests of other files in its folder, and its own checksum."""
    paths = sorted(path for pattern in _OTHER_FILES for path in folder.glob(pattern))
    tree = {**tree, "files": {path.name: file_digest(path) for path in paths}}
    return {**tree, "checksum": _checksum(tree)}


def _checksum(tree: Tree) -> str:
    """Digest of all fields except the languages, which a user may add later."""
    fields = {name: tree[name] for name in tree.keys() - {"languages", "checksum"}}
    return fingerprint([json.dumps(fields, sort_keys=True).encode()])


def verify_file(tree: Tree, path: Path, remedy: str) -> None:
    """Raise an error if a file does not have the digest in the description."""
    known = tree.get("files", {}).get(path.name)
    if known is not None and file_digest(path) != known:
        raise DataError(f"{path} is damaged: its digest differs from that in store.json. {remedy}")


def dtype_for(tokenizers: Tokenizers) -> str:
    """The smallest dtype for all ids."""
    largest = max(tokenizers.source.vocab_size, tokenizers.target.vocab_size)
    return "uint16" if largest <= 2**16 else "uint32"


def verify_tokenizers(
    description: StoreDescription, tree: Tree, tokenizers: Tokenizers, folder: Path
) -> None:
    """Raise an error if a store was prepared with other tokenizers."""
    vocabulary = description.vocabulary
    sizes = tokenizers.source.vocab_size, tokenizers.target.vocab_size
    if sizes != (vocabulary.source, vocabulary.target):
        raise DataError(
            f"The tokenizer in {folder} has {sizes[0]} and {sizes[1]} ids for source and target, "
            f"but store.json has {vocabulary.source} and {vocabulary.target}. {REMEDY}"
        )
    if tokenizers.config.is_imported:
        return  # verified by `tokenizer_fingerprint`
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
    """A digest of a store's parts, tokenizers, their settings, and labels."""
    contents = [digest.encode() for digest in digests]
    contents += [tokenizers.source.model, tokenizers.target.model]
    contents += [json.dumps(settings).encode()]
    contents += [label.encode() for label in labels]
    return fingerprint(contents)
