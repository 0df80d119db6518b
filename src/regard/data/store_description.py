"""What `store.json` says: its fields, and the fingerprints that tie it to the files beside it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from regard.config import Ge, Le, Settings, Tree
from regard.data.content import CONTENTS
from regard.errors import DataError
from regard.regular import file_digest
from regard.schema import JsonReader
from regard.text.config import TokenizerConfig
from regard.text.tokenizer import Tokenizers

FORMAT = 1
STORE_READER = JsonReader(DataError, "Run `regard prepare` again, with --overwrite.")
_FURTHER = ("*.documents.offsets", "*.distributions")  # files that no digest of a part covers


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
            f"and store.json says {vocabulary.source} and {vocabulary.target}. "
            "Run `regard prepare` again, with --overwrite."
        )
    if tokenizers.config.is_foreign:
        return  # its fingerprint is in `tokenizer_fingerprint`
    digests = [part["digest"] for part in description.parts.values()]
    labels = vocabulary.labels
    if store_fingerprint(digests, tokenizers, tree["tokenizer"], labels) != description.fingerprint:
        raise DataError(
            f"{folder} is damaged: its tokenizer or its store.json is not the one that was "
            "prepared. Run `regard prepare` again, with --overwrite."
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


def fingerprint(contents: Iterable[bytes]) -> str:
    """One short text that differs when any of the contents does."""
    digests = (hashlib.sha256(content).digest() for content in contents)
    return hashlib.sha256(b"".join(digests)).hexdigest()[:32]
