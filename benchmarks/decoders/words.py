"""Ids as words, for toolkits that read text: each has our subwords, and cuts nothing itself."""

from __future__ import annotations

from collections.abc import Sequence

MARKS = ["<pad>", "<unk>", "<s>", "</s>"]  # in the order of our ids
PAD, UNKNOWN, START, END = range(len(MARKS))


def vocabulary(size: int, marks: Sequence[str] = MARKS) -> list[str]:
    """All words in the order of their ids."""
    return [*marks, *(f"w{number}" for number in range(len(MARKS), size))]


def text(ids: Sequence[int]) -> str:
    """A sentence of words."""
    return " ".join(f"w{number}" for number in ids)


def ids(text: str) -> list[int]:
    """What such a sentence stands for; marks are left out."""
    return [int(word[1:]) for word in text.split() if word.startswith("w")]
