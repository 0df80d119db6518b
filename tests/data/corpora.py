"""Small corpora, written and prepared."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.config import build
from regard.data.doctor import DoctorConfig
from regard.data.pair_files import Files, PairReader
from regard.data.prepare import Prepared, prepare
from regard.data.store import Store
from regard.text.config import TokenizerConfig
from regard.text.tokenizer import Tokenizers

Pairs = Sequence[tuple[str, str]]

ENGLISH = ["a", "dog", "sees", "the", "house", "and", "Sleeps", "there"]
GERMAN = ["ein", "Hund", "sieht", "das", "Haus", "und", "schläft", "Straße"]


def some_pairs(count: int = 60, *, seed: int = 1) -> list[tuple[str, str]]:
    """Distinct pairs of two to eight words."""
    draw = random.Random(seed)
    found: dict[tuple[str, str], None] = {}
    while len(found) < count:
        places = draw.choices(range(len(ENGLISH)), k=draw.randint(2, 8))
        found[" ".join(ENGLISH[i] for i in places), " ".join(GERMAN[i] for i in places)] = None
    return list(found)


def write_pairs(folder: Path, name: str, pairs: Pairs) -> Files:
    """Two text files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = Files(folder / f"{name}.en", folder / f"{name}.de")
    for path, side in ((files.source, 0), (files.target, 1)):
        path.write_bytes("".join(pair[side] + "\n" for pair in pairs).encode())
    return files


def prepared(
    out: Path, pairs: Pairs, valid: Pairs = (), *, rules: DoctorConfig | None = None, **text: Any
) -> Prepared:
    """The pairs prepared in the folder `out`; the text lies beside it."""
    parts = {"train": [write_pairs(out.parent / "text", "train", pairs)]}
    if valid:
        parts["valid"] = [write_pairs(out.parent / "text", "valid", valid)]
    config = build(TokenizerConfig, {"vocab_size": 320, **text})
    return prepare(PairReader(parts, rules or DoctorConfig()), out, tokenizer=config)


def mixed(
    out: Path,
    *corpora: tuple[str, Pairs],
    tokenizer: Tokenizers | None = None,
    rules: DoctorConfig | None = None,
    **text: Any,
) -> Prepared:
    """Several corpora, each a tag and its pairs, prepared in the folder `out`."""
    files = [
        replace(write_pairs(out.parent / "text", f"{out.name}-{number}", pairs), tag=tag)
        for number, (tag, pairs) in enumerate(corpora)
    ]
    config = build(TokenizerConfig, {"vocab_size": 320, **text})
    return prepare(
        PairReader({"train": files}, rules or DoctorConfig()), out, tokenizer=tokenizer or config
    )


def texts_of(store: Store, name: str = "train") -> list[tuple[str, str]]:
    """The pairs of a part, decoded."""
    part, both = store.part(name), store.tokenizers
    return [
        (both.source.decode(part.source[i].tolist()), both.target.decode(part.target[i].tolist()))
        for i in range(len(part))
    ]
