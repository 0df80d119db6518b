"""What a prepared store may hold: its sides, and how its parts are described in `store.json`.

For each part ("train", "valid") and side there are two files: ids laid end to end, and offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from regard.config import Ge, Le, Settings
from regard.data.rows import Rows
from regard.errors import ConfigError

Count = Annotated[int, Ge(0), Le(2**62)]
# What a side holds; that of ids depends on the vocabulary.
_TYPES = {"source": "", "target": "", "labels": "uint32", "counts": "uint32", "floats": "float32"}


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
class CorpusDescription(Settings):
    """The pairs of one pair of files."""

    source: str
    target: str
    tag: str
    pairs: Count


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
    corpora: tuple[CorpusDescription, ...] | None = None


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


def _examples(sides: Mapping[str, Rows]) -> dict[str, int]:
    return {"examples": len(next(iter(sides.values())))}


@dataclass(frozen=True)
class StoreContent:
    """What a store holds: how that is called, prepared and read."""

    name: str
    title: str
    options: str  # of `regard prepare`
    model: str  # options of `regard train` for a model that reads it
    sides: tuple[Side, ...]
    part: type[Settings] = ExamplesDescription
    counted: Callable[[Mapping[str, Rows]], dict[str, int]] = _examples  # as `part` has it


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
