"""Corpora files: TOML files that list the corpora of several directions.

    [[train]]
    source = "train.en"
    target = "train.de"
    source_lang = "en"
    target_lang = "de"
    both_directions = true

    [[valid]]
    ...

Paths are relative to the working directory, as in recipes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from regard.config import Settings, build
from regard.data.directions import Direction, format_directions
from regard.data.pair_files import Files
from regard.errors import ConfigError
from regard.files import read_toml


@dataclass(frozen=True)
class CorpusEntry(Settings):
    """A table of a corpora file."""

    source: str
    target: str
    source_lang: str
    target_lang: str
    tag: str = ""
    both_directions: bool = False
    document_ids: str = ""

    def problems(self) -> Iterator[str]:
        """A direction has two languages."""
        if self.source_lang == self.target_lang:
            yield f"target_lang is {self.target_lang}, but must differ from source_lang"

    def files(self) -> list[Files]:
        """The corpus, and that of the reverse direction if both are wanted."""
        direction = Direction(self.source_lang, self.target_lang)
        paths, ids = (Path(self.source), Path(self.target)), self.document_ids
        corpus = Files(*paths, self.tag, direction, Path(ids) if ids else None)
        return [corpus, corpus.reverse] if self.both_directions else [corpus]


@dataclass(frozen=True)
class CorporaFile(Settings):
    """The content of a corpora file."""

    train: tuple[CorpusEntry, ...]
    valid: tuple[CorpusEntry, ...] = ()

    def problems(self) -> Iterator[str]:
        """There is training text."""
        if not self.train:
            yield "train has no tables; add [[train]] with source, target and their languages"

    def parts(self) -> dict[str, list[Files]]:
        """The corpora of each part."""
        parts = {
            name: [files for entry in entries for files in entry.files()]
            for name, entries in (("train", self.train), ("valid", self.valid))
            if entries
        }
        known = {files.direction for files in parts["train"]}
        unknown = {files.direction for files in parts.get("valid", [])} - known
        if unknown:
            raise ConfigError(
                f"The validation directions {format_directions(sorted(filter(None, unknown)))} "
                "have no training text. Add it, or leave out these validation files."
            )
        return parts


def read_corpora(path: Path) -> dict[str, list[Files]]:
    """The corpora that a corpora file lists, by part."""
    heading = f"{path} is not a valid corpora file"
    return build(CorporaFile, read_toml(path, "corpora file"), heading=heading).parts()
