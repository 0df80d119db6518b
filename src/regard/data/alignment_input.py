"""Input of word aligners: lines as rows of ids, with the word that each id belongs to.

Words are separated by whitespace. Punctuation attached to a word does not align it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.data.alignments import Links
from regard.data.rows import Rows
from regard.text.base import Tokenizer

_NO_WORD = -1
_PUNCTUATION = re.compile(r"^\W+|\W+$")


@dataclass(frozen=True)
class SegmentedText:
    """Lines segmented into words or subwords, with ids."""

    rows: Rows  # the ids of each line
    word_indices: list[list[int]]  # word of each id; -1: none
    tokens: list[list[str]]  # string of each id
    words: list[list[str]]


@dataclass(frozen=True)
class AlignmentPairs:
    """The lines of two parallel texts; links are between words, or between tokens."""

    source: SegmentedText
    target: SegmentedText
    over_words: bool

    def __len__(self) -> int:
        return len(self.source.rows)

    @property
    def sides(self) -> tuple[Rows, Rows]:
        """The ids of source and target."""
        return self.source.rows, self.target.rows

    def labels(self, number: int) -> tuple[list[str], list[str]]:
        """The words or tokens of a pair that links refer to."""
        if self.over_words:
            return self.source.words[number], self.target.words[number]
        return self.source.tokens[number], self.target.tokens[number]

    def convert_links(self, number: int, links: Links) -> Links:
        """Convert links between ids: words are linked if any of their subwords are."""
        if not self.over_words:
            return links
        source, target = self.source.word_indices[number], self.target.word_indices[number]
        word_links = ((source[i], target[j]) for i, j in links)
        return {link for link in word_links if _NO_WORD not in link}


def segment_into_words(lines: Sequence[str]) -> SegmentedText:
    """One id per word, ignoring case and surrounding punctuation."""
    words = [line.split() for line in lines]
    word_ids: dict[str, int] = {}
    normalized = [[_PUNCTUATION.sub("", word.lower()) or word for word in line] for line in words]
    ids = [[word_ids.setdefault(word, len(word_ids)) for word in line] for line in normalized]
    return SegmentedText(_rows(ids), [list(range(len(line))) for line in words], words, words)


def segment_into_subwords(lines: Sequence[str], tokenizer: Tokenizer) -> SegmentedText:
    """One id per subword; words are tokenized separately, as no subword crosses a space."""
    words = [line.split() for line in lines]
    encoded = iter(tokenizer.encode_all([word for line in words for word in line]))
    ids, word_indices, tokens = [], [], []
    for line in words:
        line_ids = [next(encoded) for _ in line]
        subwords = [tokenizer.ids_to_tokens(word) for word in line_ids]
        ids.append([token for word in line_ids for token in word])
        word_indices.append(
            [index for number, word in enumerate(subwords) for index in _word_indices(number, word)]
        )
        tokens.append([subword for word in subwords for subword in word])
    return SegmentedText(_rows(ids), word_indices, tokens, words)


def _word_indices(number: int, subwords: Sequence[str]) -> list[int]:
    """The word of each subword; punctuation has none unless the word is only punctuation."""
    alphanumeric = [any(letter.isalnum() for letter in subword) for subword in subwords]
    has_letters = any(alphanumeric)
    return [number if part or not has_letters else _NO_WORD for part in alphanumeric]


def _rows(lines: Sequence[Sequence[int]]) -> Rows:
    ids = np.array([token for line in lines for token in line], dtype=np.int64)
    return Rows(ids, np.cumsum([0, *map(len, lines)]))
