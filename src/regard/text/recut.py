"""Subword sampling (Kudo, 2018, arXiv:1804.10959): the same text, cut in another way each time.

A unigram model scores a cut by the product of its pieces, and no piece crosses a space. So a
sentence is cut word by word: what is drawn is as likely as if whole sentences were drawn, every
word varies by itself, and SentencePiece is asked for the best cuts of a word only once.
SentencePiece's own sampler cannot be seeded; the draw is ours.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from random import Random

from regard.text.tokenizer import Tokenizer

_WORDS_KEPT = 2**18
_Word = tuple[int, ...]


class Recutter:
    """Cuts words anew, each among its `candidates` best ways."""

    def __init__(self, tokenizer: Tokenizer, *, candidates: int, temperature: float) -> None:
        self._tokenizer = tokenizer
        self._candidates = candidates
        self._temperature = temperature
        self._begins = tokenizer.word_begins()
        self._ways = lru_cache(_WORDS_KEPT)(self._find_ways)

    def recut(self, ids: Sequence[int], draw: Random) -> list[int]:
        """Other ids for the same text."""
        result: list[int] = []
        for word in self._words(ids):
            cuts, bounds = self._ways(word)
            result += cuts[bisect_right(bounds, draw.random())]
        return result

    def _words(self, ids: Sequence[int]) -> Iterator[_Word]:
        begin = 0
        for place, token in enumerate(ids):
            if place > begin and self._begins[token]:
                yield tuple(ids[begin:place])
                begin = place
        if begin < len(ids):
            yield tuple(ids[begin:])

    def _find_ways(self, word: _Word) -> tuple[list[list[int]], list[float]]:
        """The cuts of a word, and where each one's share of [0, 1) ends, but for the last's."""
        found = self._tokenizer.best_cuts(self._tokenizer.decode(word), self._candidates)
        if not found:  # a space alone
            return [list(word)], []
        scores = [score / self._temperature for _, score in found]
        shares = [math.exp(score - max(scores)) for score in scores]
        bounds = [bound / sum(shares) for bound in accumulate(shares)]
        return [cut for cut, _ in found], bounds[:-1]
