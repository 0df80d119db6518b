"""How words are spelled: their bytes between a mark before and a mark after them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from regard.data.ragged import Ragged
from regard.text.base import Tokenizer

_BEFORE, _AFTER = 256, 257  # what no byte is
SIGNS = 258
_LONGEST = 32  # bytes of a word; of a longer one, the first and the last
_KEPT = 2**18  # words whose spelling is remembered


class Speller:
    """Spells words that are given as ids: as the tokenizer writes them, case folded if it does."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._word = lru_cache(_KEPT)(self._spelled)

    def spell(self, words: Iterable[Sequence[int]]) -> Ragged:
        """The bytes of each word."""
        return Ragged.of([self._word(tuple(word)) for word in words])

    def _spelled(self, word: tuple[int, ...]) -> list[int]:
        found = [*self._tokenizer.decode(word).encode()]
        if len(found) > _LONGEST:
            found = found[: _LONGEST // 2] + found[-_LONGEST // 2 :]
        return [_BEFORE, *found, _AFTER]
