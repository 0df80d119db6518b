"""What both demo grammars share: reading word tables, drawing from them, and plain English."""

import re
from collections.abc import Sequence
from random import Random
from typing import TypeVar

Pair = tuple[str, str]
Choice = TypeVar("Choice")

MOST_ENGLISH_WORDS = 12  # longer sentences are drawn again: they cost training time, teach no rule
_TWICE = re.compile(r"\b(\w+)(?: is| are)? \1\b")  # "the boy who swims swims"


def read_table(text: str) -> list[list[str]]:
    """Read one row per line; cells are parted by blanks, `_` is a blank inside a cell."""
    rows = [line.split("#")[0].split() for line in text.splitlines()]
    return [[cell.replace("_", " ") for cell in row] for row in rows if row]


def pick(rng: Random, choices: Sequence[Choice]) -> Choice:
    """Draw one of the choices, all equally likely (several times faster than `rng.choice`)."""
    return choices[int(rng.random() * len(choices))]


def repeated(weights: dict[Choice, int]) -> tuple[Choice, ...]:
    """Repeat each choice by its weight, so that `pick` draws it that often."""
    return tuple(choice for choice, weight in weights.items() for _ in range(weight))


def with_article(following: str) -> str:
    """Put "a" or "an" before English words (no word of the demos has a silent h or a "yoo")."""
    return f"{'an' if following[0] in 'aeiou' else 'a'} {following}"


def capitalised(sentence: str) -> str:
    """Make the first letter a capital and leave the rest, unlike `str.capitalize`."""
    return sentence[0].upper() + sentence[1:]


def presentable(english: str) -> bool:
    """Tell whether a sentence is short enough and says no word twice in a row."""
    return english.count(" ") < MOST_ENGLISH_WORDS and not _TWICE.search(english)
