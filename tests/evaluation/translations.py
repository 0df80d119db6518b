"""References, and translations of them that are wrong as often as one likes."""

from __future__ import annotations

import random
from collections.abc import Sequence

WORDS = ["the", "a", "dog", "cat", "man", "tree", "runs", "sits", "sees", "red", "old", "."]


def references(count: int = 80) -> list[str]:
    """Lines of 1 to 20 words."""
    draw = random.Random(1)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 20))) for _ in range(count)]


def damaged(lines: Sequence[str], share: float, *, seed: int = 2) -> list[str]:
    """The lines with this share of their words replaced."""
    draw = random.Random(seed)
    return [
        " ".join("wrong" if draw.random() < share else word for word in line.split())
        for line in lines
    ]
