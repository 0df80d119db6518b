"""Lines as rows of ids, which know the words that they are parts of: what aligners read.

A word is what stands between spaces. Punctuation at a word does not link it to another.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.data.links import Links
from regard.data.rows import Rows
from regard.text.base import Tokenizer

_NOBODY = -1
_AROUND = re.compile(r"^\W+|\W+$")


@dataclass(frozen=True)
class Cut:
    """Some lines, cut into parts that have ids."""

    rows: Rows  # the ids of each line
    owners: list[list[int]]  # the word that each id stands for; -1: none
    parts: list[list[str]]  # what each id looks like
    words: list[list[str]]


@dataclass(frozen=True)
class Pairs:
    """The lines of two texts that belong together; links are between words, or between parts."""

    source: Cut
    target: Cut
    over_words: bool

    def __len__(self) -> int:
        return len(self.source.rows)

    @property
    def sides(self) -> tuple[Rows, Rows]:
        """The ids of source and target."""
        return self.source.rows, self.target.rows

    def labels(self, number: int) -> tuple[list[str], list[str]]:
        """What can be linked in a pair."""
        if self.over_words:
            return self.source.words[number], self.target.words[number]
        return self.source.parts[number], self.target.parts[number]

    def links(self, number: int, links: Links) -> Links:
        """The links of a pair, of links between its ids: words are linked if any parts are."""
        if not self.over_words:
            return links
        source, target = self.source.owners[number], self.target.owners[number]
        found = ((source[i], target[j]) for i, j in links)
        return {link for link in found if _NOBODY not in link}


def by_words(lines: Sequence[str]) -> Cut:
    """Each word by itself, whatever its case and the punctuation around it."""
    words = [line.split() for line in lines]
    numbers: dict[str, int] = {}
    bare = [[_AROUND.sub("", word.lower()) or word for word in line] for line in words]
    ids = [[numbers.setdefault(word, len(numbers)) for word in line] for line in bare]
    return Cut(_rows(ids), [list(range(len(line))) for line in words], words, words)


def by_subwords(lines: Sequence[str], tokenizer: Tokenizer) -> Cut:
    """Each word in subwords, which are those of the line: none reaches across a space."""
    words = [line.split() for line in lines]
    cuts = iter(tokenizer.encode_all([word for line in words for word in line]))
    ids, owners, parts = [], [], []
    for line in words:
        found = [next(cuts) for _ in line]
        pieces = [tokenizer.pieces(word) for word in found]
        ids.append([part for word in found for part in word])
        owners.append([o for number, word in enumerate(pieces) for o in _owners(number, word)])
        parts.append([piece for word in pieces for piece in word])
    return Cut(_rows(ids), owners, parts, words)


def _owners(number: int, pieces: Sequence[str]) -> list[int]:
    """The word of each of its pieces, but for punctuation if it has more than that."""
    speaks = [any(letter.isalnum() for letter in piece) for piece in pieces]
    return [number if own or not any(speaks) else _NOBODY for own in speaks]


def _rows(lines: Sequence[Sequence[int]]) -> Rows:
    ids = np.array([part for line in lines for part in line], dtype=np.int64)
    return Rows(ids, np.cumsum([0, *map(len, lines)]))
