"""Small corpora for tests, written and prepared."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.config import build
from regard.data.filters import CorpusFilterConfig
from regard.data.pair_files import Files, PairReader
from regard.data.prepare import PrepareResult, prepare
from regard.data.store import Store
from regard.text.config import TokenizerConfig
from regard.text.tokenizer import Tokenizers

Pairs = Sequence[tuple[str, str]]

ENGLISH = ["a", "dog", "sees", "the", "house", "and", "Sleeps", "there"]
GERMAN = ["ein", "Hund", "sieht", "das", "Haus", "und", "schläft", "Straße"]


def some_pairs(count: int = 60, *, seed: int = 1) -> list[tuple[str, str]]:
    """Distinct pairs of two to eight words."""
    rng = random.Random(seed)
    pairs: dict[tuple[str, str], None] = {}
    while len(pairs) < count:
        words = rng.choices(range(len(ENGLISH)), k=rng.randint(2, 8))
        pairs[" ".join(ENGLISH[i] for i in words), " ".join(GERMAN[i] for i in words)] = None
    return list(pairs)


def write_pairs(folder: Path, name: str, pairs: Pairs) -> Files:
    """Write two parallel text files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = Files(folder / f"{name}.en", folder / f"{name}.de")
    for path, side in ((files.source, 0), (files.target, 1)):
        path.write_bytes("".join(pair[side] + "\n" for pair in pairs).encode())
    return files


def prepare_pairs(
    out: Path,
    pairs: Pairs,
    valid: Pairs = (),
    *,
    filters: CorpusFilterConfig | None = None,
    **text: Any,
) -> PrepareResult:
    """Prepare pairs in the folder `out`, with the text next to it."""
    parts = {"train": [write_pairs(out.parent / "text", "train", pairs)]}
    if valid:
        parts["valid"] = [write_pairs(out.parent / "text", "valid", valid)]
    config = build(TokenizerConfig, {"vocab_size": 320, **text})
    return prepare(PairReader(parts, filters or CorpusFilterConfig()), out, tokenizer=config)


def prepare_corpora(
    out: Path,
    *corpora: tuple[str, Pairs],
    tokenizer: Tokenizers | None = None,
    filters: CorpusFilterConfig | None = None,
    **text: Any,
) -> PrepareResult:
    """Prepare several corpora, each a tag and its pairs, in the folder `out`."""
    files = [
        replace(write_pairs(out.parent / "text", f"{out.name}-{number}", pairs), tag=tag)
        for number, (tag, pairs) in enumerate(corpora)
    ]
    config = build(TokenizerConfig, {"vocab_size": 320, **text})
    return prepare(
        PairReader({"train": files}, filters or CorpusFilterConfig()),
        out,
        tokenizer=tokenizer or config,
    )


def texts_of(store: Store, name: str = "train") -> list[tuple[str, str]]:
    """The pairs of a part, decoded."""
    part, both = store.part(name), store.tokenizers
    return [
        (both.source.decode(part.source[i].tolist()), both.target.decode(part.target[i].tolist()))
        for i in range(len(part))
    ]
