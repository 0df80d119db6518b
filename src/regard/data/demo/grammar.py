"""Shared parts of the demo grammars: word tables, sampling, English morphology."""

import re
import tomllib
from collections.abc import Sequence
from importlib import resources
from random import Random
from typing import NamedTuple, TypeVar

Pair = tuple[str, str]
Choice = TypeVar("Choice")

MAX_ENGLISH_WORDS = 12  # longer sentences are rejected
_REPEATED_WORD = re.compile(r"\b(\w+)(?: is| are)? \1\b")  # "the boy who swims swims"


class Vocabulary(NamedTuple):
    """The contents of a grammar's word file, which documents its format; `tables` by name."""

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
    """Sample one of the choices uniformly (several times faster than `rng.choice`)."""
    return choices[int(rng.random() * len(choices))]


def weighted_choices(weights: dict[Choice, int]) -> tuple[Choice, ...]:
    """Repeat each choice by its weight, so that `pick` samples by weight."""
    return tuple(choice for choice, weight in weights.items() for _ in range(weight))


def with_determiner(determiner: str, following: str) -> str:
    """Add a determiner to English words (none has a silent h or a "yoo" after "a")."""
    article = "an" if determiner == "a" and following[0] in "aeiou" else determiner
    return f"{article} {following}"


def parse_kinds(cell: str) -> frozenset[str]:
    """Parse a cell with comma-separated kinds of words."""
    return frozenset(cell.split(","))


def capitalize(sentence: str) -> str:
    """Capitalize the first letter and keep the rest, unlike `str.capitalize`."""
    return sentence[0].upper() + sentence[1:]


def is_presentable(english: str) -> bool:
    """Whether a sentence is short enough and repeats no word."""
    return english.count(" ") < MAX_ENGLISH_WORDS and not _REPEATED_WORD.search(english)
