"""What both demo grammars share: reading word tables, drawing from them, and plain English."""

import re
import tomllib
from collections.abc import Sequence
from importlib import resources
from random import Random
from typing import NamedTuple, TypeVar

Pair = tuple[str, str]
Choice = TypeVar("Choice")

MOST_ENGLISH_WORDS = 12  # longer sentences are drawn again: they cost training time, teach no rule
_TWICE = re.compile(r"\b(\w+)(?: is| are)? \1\b")  # "the boy who swims swims"


class Vocabulary(NamedTuple):
    """The contents of a grammar's word file, which explains its format; `tables` are by name."""

    tables: dict[str, list[list[str]]]
    note_examples: list[Pair]
    samples: list[str]
    withheld: list[Pair]


def read_vocabulary(name: str) -> Vocabulary:
    """Read the word file of a grammar, NAME.toml."""
    path = resources.files("regard.data.demo") / f"{name}.toml"
    contents = tomllib.loads(path.read_text("utf-8"))
    return Vocabulary(
        {key: _read_table(value) for key, value in contents.items() if isinstance(value, str)},
        [(source, target) for source, target in contents["note_examples"]],
        contents["samples"],
        [(first, second) for first, second in contents["withheld"]],
    )


def _read_table(text: str) -> list[list[str]]:
    rows = [line.split("#")[0].split() for line in text.splitlines()]
    return [["" if cell == "-" else cell.replace("_", " ") for cell in row] for row in rows if row]


def pick(rng: Random, choices: Sequence[Choice]) -> Choice:
    """Draw one of the choices, all equally likely (several times faster than `rng.choice`)."""
    return choices[int(rng.random() * len(choices))]


def repeated(weights: dict[Choice, int]) -> tuple[Choice, ...]:
    """Repeat each choice by its weight, so that `pick` draws it that often."""
    return tuple(choice for choice, weight in weights.items() for _ in range(weight))


def determined(determiner: str, following: str) -> str:
    """Put a determiner before English words (no word has a silent h or a "yoo" after "a")."""
    article = "an" if determiner == "a" and following[0] in "aeiou" else determiner
    return f"{article} {following}"


def kinds_of(cell: str) -> frozenset[str]:
    """Read a cell with kinds of words, a comma between them."""
    return frozenset(cell.split(","))


def capitalised(sentence: str) -> str:
    """Make the first letter a capital and leave the rest, unlike `str.capitalize`."""
    return sentence[0].upper() + sentence[1:]


def presentable(english: str) -> bool:
    """Tell whether a sentence is short enough and says no word twice in a row."""
    return english.count(" ") < MOST_ENGLISH_WORDS and not _TWICE.search(english)
