"""Terms of a parallel corpus: words and phrases with their translations, by word alignment.

A pair of phrases is a term if the links of its words stay inside of it (as in phrase-based
translation; Koehn et al., 2003), some of them in both directions, and if its outer words are
neither punctuation nor among the most frequent words, most of which are function words.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import combinations_with_replacement, compress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.data.aligner import BidirectionalAligner
from regard.data.alignments import Links, symmetrize
from regard.data.rows import Rows
from regard.text.words import word_spans

MAX_WORDS = 4  # of a term, on each side
_MAX_FREQUENT = 100  # frequent words on each side, but at most a tenth of all


class AlignedTerm(NamedTuple):
    """A term from `start` to `end` of a source, its translation, and its weight in a sample."""

    start: int
    end: int
    translation: str
    weight: float = 1.0


class AlignedCorpus:
    """Collects pairs of sentences, aligns their words, and finds terms in them."""

    def __init__(self) -> None:
        self._sides = _Side(), _Side()
        self._inside = Counter[str]()  # target words that do not begin a sentence

    def __len__(self) -> int:
        return len(self._sides[0])

    def add(self, source: str, target: str) -> None:
        """Add a pair."""
        for side, text in zip(self._sides, (source, target), strict=True):
            side.add(text)
        self._inside.update(target[slice(*span)] for span in word_spans(target)[1:])

    def align(self, selected: Sequence[bool]) -> Iterator[tuple[Links, Links]]:
        """Train an aligner on all pairs; returns sure and possible links of the selected ones."""
        source, target = (side.rows() for side in self._sides)
        aligner = BidirectionalAligner.train(source, target)
        heads = aligner.align(_select(source, selected), _select(target, selected))
        return ((symmetrize(*each, "intersection"), symmetrize(*each, "union")) for each in heads)

    def terms(self, source: str, target: str, sure: Links, possible: Links) -> list[AlignedTerm]:
        """The terms of a pair with these links, from left to right."""
        sources, targets = (
            _Words.of(text, side.frequent)
            for text, side in zip((source, target), self._sides, strict=True)
        )
        return [
            AlignedTerm(
                sources.spans[first][0],
                sources.spans[last][1],
                self._translation(targets, start, end),
                self._weight(targets, start, end) / (last - first + 1),
            )
            for first, last, start, end in _phrases(sources, targets, sure, possible)
        ]

    def _translation(self, words: _Words, first: int, last: int) -> str:
        """The text of target words; without the capital letter of the beginning of a sentence."""
        text = words.text[words.spans[first][0] : words.spans[last][1]]
        start, end = words.spans[0]
        word = words.text[start:end]
        lower = word[0].lower() + word[1:]
        if first == 0 and self._inside[lower] > self._inside[word]:
            return text[0].lower() + text[1:]
        return text

    def _weight(self, words: _Words, first: int, last: int) -> float:
        """High for a term with a rare word: models translate frequent ones without annotations."""
        texts = (words.text[start:end] for start, end in words.spans[first : last + 1])
        return 1 / math.log2(1 + min(map(self._sides[1].count, texts)))


class _Side:
    """The words of one side as ids, without case."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._ids, self._offsets = array("q"), array("q", [0])

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def add(self, text: str) -> None:
        for start, end in word_spans(text):
            self._ids.append(self._known.setdefault(text[start:end].lower(), len(self._known)))
        self._offsets.append(len(self._ids))

    def rows(self) -> Rows:
        """The ids of each sentence."""
        return Rows(np.array(self._ids), np.array(self._offsets))

    def count(self, word: str) -> int:
        """How often a word occurs."""
        return int(self._counts[self._known[word.lower()]])

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        return np.bincount(np.array(self._ids), minlength=1)

    @cached_property
    def frequent(self) -> frozenset[str]:
        """The most frequent words, of all sentences that have been added."""
        size = min(_MAX_FREQUENT, len(self._known) // 10)
        frequent = {*np.argsort(-self._counts, kind="stable")[:size].tolist()}
        return frozenset(word for word, number in self._known.items() if number in frequent)


class _Words(NamedTuple):
    """The words of a sentence."""

    text: str
    spans: list[tuple[int, int]]
    is_word: list[bool]  # rather than punctuation or a number
    is_content: list[bool]  # a word that is not frequent

    @staticmethod
    def of(text: str, frequent: frozenset[str]) -> _Words:
        spans = word_spans(text)
        words = [text[start:end] for start, end in spans]
        is_word = [any(map(str.isalpha, word)) for word in words]
        is_content = [
            letters and word.lower() not in frequent
            for word, letters in zip(words, is_word, strict=True)
        ]
        return _Words(text, spans, is_word, is_content)

    def may_be_term(self, first: int, last: int) -> bool:
        """Whether these words may be a term: few, without punctuation between them."""
        return (
            last - first < MAX_WORDS
            and self.is_content[first]
            and self.is_content[last]
            and all(self.is_word[first : last + 1])
        )


def _phrases(
    source: _Words, target: _Words, sure: Links, possible: Links
) -> Iterator[tuple[int, int, int, int]]:
    """The first and last source word, and the first and last target word, of each term."""
    by_source: list[list[int]] = [[] for _ in source.spans]
    by_target: list[list[int]] = [[] for _ in target.spans]
    for i, j in possible:
        by_source[i].append(j)
        by_target[j].append(i)
    for first, last in combinations_with_replacement(range(len(source.spans)), 2):
        if not source.may_be_term(first, last) or not by_source[first] or not by_source[last]:
            continue
        linked = [j for targets in by_source[first : last + 1] for j in targets]
        start, end = min(linked), max(linked)
        back = [i for sources in by_target[start : end + 1] for i in sources]
        is_closed = first <= min(back) and max(back) <= last
        is_sure = any((i, j) in sure for i in range(first, last + 1) for j in by_source[i])
        if is_closed and is_sure and target.may_be_term(start, end):
            yield first, last, start, end


def _select(rows: Rows, selected: Sequence[bool]) -> Rows:
    """Some of the rows."""
    chosen = [rows[number] for number in compress(range(len(rows)), selected)]
    offsets = np.cumsum([0, *map(len, chosen)])
    return Rows(np.concatenate([*chosen, rows.flat()[:0]]), offsets)
