"""Random references, and hypotheses with a chosen rate of wrong words."""

from __future__ import annotations

import random
from collections.abc import Sequence

WORDS = ["the", "a", "dog", "cat", "man", "tree", "runs", "sits", "sees", "red", "old", "."]


def references(count: int = 80) -> list[str]:
    """Return random lines of 1 to 20 words."""
    draw = random.Random(1)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 20))) for _ in range(count)]


def corrupt(lines: Sequence[str], rate: float, *, seed: int = 2) -> list[str]:
    """Replace words at random with the given probability."""
    draw = random.Random(seed)
    return [
        " ".join("wrong" if draw.random() < rate else word for word in line.split())
        for line in lines
    ]
