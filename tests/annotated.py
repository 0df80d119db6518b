"""Corpora and stores with annotated terms, for tests."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from data.corpora import write_pairs
from regard.config import build
from regard.data.filters import CorpusFilterConfig
from regard.data.pair_files import PairReader
from regard.data.prepare import PrepareResult, prepare
from regard.data.store import Store
from regard.data.term_annotation import TermAnnotation
from regard.data.term_annotation_config import TermAnnotationConfig
from regard.text.config import TokenizerConfig

LETTERS = "abcdefghijklmnopqrst"


def letter_pairs(count: int = 200, *, seed: int = 4) -> list[tuple[str, str]]:
    """Distinct lines of letters; the target has the same letters, each followed by "z"."""
    draw = random.Random(seed)
    lines = {" ".join(draw.choices(LETTERS, k=draw.randint(3, 7))): None for _ in range(count)}
    return [(line, " ".join(f"{letter}z" for letter in line.split())) for line in lines]


def prepare_annotated(
    out: Path,
    pairs: Sequence[tuple[str, str]],
    valid: Sequence[tuple[str, str]] = (),
    *,
    tokenizer: dict[str, Any] | None = None,
    filters: CorpusFilterConfig | None = None,
    **settings: Any,
) -> PrepareResult:
    """Prepare pairs in the folder `out`, with the text next to it."""
    parts = {"train": [write_pairs(out.parent / "text", "train", pairs)]}
    if valid:
        parts["valid"] = [write_pairs(out.parent / "text", "valid", valid)]
    annotation = TermAnnotation.of(build(TermAnnotationConfig, settings))
    return prepare(
        PairReader(parts, filters or CorpusFilterConfig(), annotation=annotation),
        out,
        tokenizer=build(TokenizerConfig, {"vocab_size": 310, **(tokenizer or {})}),
        languages=("xx", "yy"),
    )


def write_annotated_store(folder: Path) -> Store:
    """A prepared folder of letters with annotated terms."""
    prepare_annotated(folder / "prepared", letter_pairs(), annotate_terms=0.5)
    return Store(folder / "prepared")
