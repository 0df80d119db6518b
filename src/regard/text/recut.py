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

from regard.text.base import Tokenizer

_KEPT = 2**18  # words, and sentences, whose cuts are remembered
_Ids = tuple[int, ...]
_Ways = tuple[list[_Ids], list[float]]  # cuts, and where the share of each in [0, 1) ends


class Recutter:
    """Cuts words anew, each among its `candidates` best ways."""

    def __init__(self, tokenizer: Tokenizer, *, candidates: int, temperature: float) -> None:
        self._tokenizer = tokenizer
        self._candidates = candidates
        self._temperature = temperature
        self._begins = tokenizer.word_begins()
        word = lru_cache(_KEPT)(self._ways_of_word)
        self._sentence = lru_cache(_KEPT)(lambda ids: [*map(word, self._words(ids))])

    def recut(self, ids: Sequence[int], draw: Random) -> list[int]:
        """Other ids for the same text."""
        result: list[int] = []
        for cuts, bounds in self._sentence(tuple(ids)):
            result += cuts[bisect_right(bounds, draw.random()) if bounds else 0]
        return result

    def _words(self, ids: _Ids) -> Iterator[_Ids]:
        begin = 0
        for place, token in enumerate(ids):
            if place > begin and self._begins[token]:
                yield ids[begin:place]
                begin = place
        if begin < len(ids):
            yield ids[begin:]

    def _ways_of_word(self, word: _Ids) -> _Ways:
        found = self._tokenizer.best_cuts(self._tokenizer.decode(word), self._candidates)
        if not found:  # a space alone
            return [word], []
        best = found[0][1]
        shares = [math.exp((score - best) / self._temperature) for _, score in found]
        bounds = [bound / sum(shares) for bound in accumulate(shares)]
        bounds.pop()  # the last cut's share ends at 1, whatever rounding says
        return [tuple(cut) for cut, _ in found], bounds
