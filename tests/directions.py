"""A store of several toy directions, for tests."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from regard.config import build
from regard.data.directions import Direction
from regard.data.filters import CorpusFilterConfig
from regard.data.pair_files import Files, PairReader
from regard.data.prepare import prepare
from regard.data.store import Store
from regard.text.config import TokenizerConfig

# Target lines by direction: letters in reverse order, or the same letters.
DIRECTIONS: dict[Direction, Callable[[str], str]] = {
    Direction("xx", "yy"): lambda line: line[::-1],
    Direction("xx", "zz"): lambda line: line,
    Direction("yy", "xx"): lambda line: line[::-1],
}


def toy_lines(count: int, seed: int, longest: int = 7) -> list[str]:
    """Lines of a few letters."""
    draw = random.Random(seed)
    return [" ".join(draw.choices("abcdefghij", k=draw.randint(2, longest))) for _ in range(count)]


def write_directions_store(
    folder: Path,
    sizes: tuple[int, int, int] = (240, 120, 60),
    *,
    tokenizer: str = "word",
    longest: int = 7,
) -> Store:
    """Prepare a corpus of each direction; each validation corpus has 20 pairs."""
    parts: dict[str, list[Files]] = {"train": [], "valid": []}
    for number, (direction, convert) in enumerate(DIRECTIONS.items()):
        for part, count in (("train", sizes[number]), ("valid", 20)):
            lines = toy_lines(count, seed=10 * number + (part == "valid"), longest=longest)
            source, target = (folder / f"{part}.{direction}.{side}" for side in "st")
            source.write_text("".join(line + "\n" for line in lines))
            target.write_text("".join(convert(line) + "\n" for line in lines))
            parts[part].append(Files(source, target, direction=direction))
    prepare(
        PairReader(parts, CorpusFilterConfig(skip_copied=False, skip_duplicates=False)),
        folder / "prepared",
        tokenizer=build(TokenizerConfig, {"kind": tokenizer, "vocab_size": 300}),
    )
    return Store(folder / "prepared")
