"""Subword regularization (Kudo, 2018, arXiv:1804.10959): sample a segmentation in each epoch.

The unigram probability of a segmentation is the product over its subwords, and no subword crosses
a space. Sampling each word independently is therefore equivalent to sampling whole sentences, and
the n-best segmentations of a word can be cached. SentencePiece's sampler cannot be seeded, so
sampling is implemented here.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from random import Random

from regard.text.base import Tokenizer
from regard.text.special import SPECIAL

_CACHE_SIZE = 2**18  # words, and sentences
_Ids = tuple[int, ...]
_Candidates = tuple[list[_Ids], list[float]]  # segmentations, upper bounds of their cdf bins


class SubwordSampler:
    """Samples the segmentation of each word from its `candidates` best ones."""

    def __init__(self, tokenizer: Tokenizer, *, candidates: int, temperature: float) -> None:
        self._tokenizer = tokenizer.in_text_order
        self._order = 1 if self._tokenizer is tokenizer else -1  # of ids
        self._candidates = candidates
        self._temperature = temperature
        self._starts_word = [*tokenizer.word_starts()]
        self._starts_word[SPECIAL.bos] = True  # the separator of document context
        candidates_of_word = lru_cache(_CACHE_SIZE)(self._word_candidates)
        self._sentence_candidates = lru_cache(_CACHE_SIZE)(
            lambda ids: [*map(candidates_of_word, self._words(ids))]
        )

    def sample(self, ids: Sequence[int], rng: Random) -> list[int]:
        """Ids of a sampled segmentation of the same text."""
        result: list[int] = []
        for segmentations, bounds in self._sentence_candidates(tuple(ids[:: self._order])):
            result += segmentations[bisect_right(bounds, rng.random()) if bounds else 0]
        return result[:: self._order]

    def _words(self, ids: _Ids) -> Iterator[_Ids]:
        begin = 0
        for position, token in enumerate(ids):
            if position > begin and self._starts_word[token]:
                yield ids[begin:position]
                begin = position
        if begin < len(ids):
            yield ids[begin:]

    def _word_candidates(self, word: _Ids) -> _Candidates:
        nbest = self._tokenizer.nbest_encode(self._tokenizer.decode(word), self._candidates)
        if not nbest:  # a single space, or a special token
            return [word], []
        best = nbest[0][1]
        weights = [math.exp((score - best) / self._temperature) for _, score in nbest]
        bounds = [bound / sum(weights) for bound in accumulate(weights)]
        bounds.pop()  # the last bin ends at 1, independent of rounding
        return [tuple(ids) for ids, _ in nbest], bounds
