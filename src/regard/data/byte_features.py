"""Byte features of words: the bytes of each word between two boundary symbols."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from regard.data.ragged import Ragged
from regard.text.base import Tokenizer

_BEGIN, _END = 256, 257  # boundary symbols, after the 256 bytes
BYTE_VOCABULARY_SIZE = 258
_MAX_BYTES = 32  # of longer words, the first and last 16 bytes are used
_CACHE_SIZE = 2**18  # words


class ByteFeatures:
    """Extracts the bytes of words from their subword ids, as the tokenizer decodes them."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._cached_bytes = lru_cache(_CACHE_SIZE)(self._word_bytes)

    def extract(self, words: Iterable[Sequence[int]]) -> Ragged:
        """The bytes of each word."""
        return Ragged.of([self._cached_bytes(tuple(word)) for word in words])

    def _word_bytes(self, word: tuple[int, ...]) -> list[int]:
        word_bytes = [*self._tokenizer.decode(word).encode()]
        if len(word_bytes) > _MAX_BYTES:
            word_bytes = word_bytes[: _MAX_BYTES // 2] + word_bytes[-_MAX_BYTES // 2 :]
        return [_BEGIN, *word_bytes, _END]
