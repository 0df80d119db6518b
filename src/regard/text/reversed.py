"""Target tokenizers of right-to-left models: the ids of a text in reverse order."""

from __future__ import annotations

from collections.abc import Sequence

from regard.text.base import Tokenizer


class ReversedTokenizer(Tokenizer):
    """Encodes as another tokenizer does, with the ids in reverse order, which decoding undoes."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.model, self.config = tokenizer.model, tokenizer.config

    @property
    def in_text_order(self) -> Tokenizer:
        """The tokenizer whose ids are reversed."""
        return self._tokenizer

    @property
    def vocab_size(self) -> int:
        """Number of ids, special tokens included."""
        return self._tokenizer.vocab_size

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, from the last to the first."""
        return [ids[::-1] for ids in self._tokenizer.encode_all(texts)]

    def decode_all(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        """The text of each row of ids, which are in reverse order."""
        return self._tokenizer.decode_all([ids[::-1] for ids in sentences])

    def ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        """The token string of each id."""
        return self._tokenizer.ids_to_tokens(ids)

    def word_starts(self) -> list[bool]:
        """For each id, whether its token begins a word."""
        return self._tokenizer.word_starts()

    @property
    def line_break(self) -> int:
        """The id of the line break in plain text."""
        return self._tokenizer.line_break

    def nbest_encode(self, text: str, count: int) -> list[tuple[list[int], float]]:
        """Up to `count` segmentations of a text, best first, with their log-probabilities."""
        nbest = self._tokenizer.nbest_encode(text, count)
        return [(ids[::-1], log_probability) for ids, log_probability in nbest]
