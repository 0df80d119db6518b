"""The tokenizer interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from regard.text.config import TokenizerConfig
from regard.text.special import SPECIAL


class Tokenizer(ABC):
    """Converts text to subword ids and back; equal if made from the same files and settings."""

    model: bytes  # the content of its files
    config: TokenizerConfig

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tokenizer):
            return NotImplemented
        return (self.model, self.config) == (other.model, other.config)

    def __hash__(self) -> int:
        return hash(self.model)

    @property
    def in_text_order(self) -> Tokenizer:
        """The tokenizer with ids in the order of the text: this one, unless ids are reversed."""
        return self

    @property
    @abstractmethod
    def vocab_size(self) -> int:
        """Number of ids, special tokens included."""

    @abstractmethod
    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, without BOS and EOS; faster than one call per text."""

    @abstractmethod
    def decode_all(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        """The text of each row of ids; special tokens are skipped."""

    @abstractmethod
    def ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        """The token string of each id."""

    @abstractmethod
    def word_starts(self) -> list[bool]:
        """For each id, whether its token begins a word."""

    @property
    @abstractmethod
    def line_break(self) -> int:
        """The id of the line break in plain text."""

    def encode(self, text: str) -> list[int]:
        """Ids of a text, without BOS and EOS."""
        return self.encode_all([text])[0]

    def encode_words(self, words: Sequence[str]) -> list[list[int]]:
        """Ids of each word of a sentence, encoded as if after a space; UNK if there are none."""
        return [ids or [SPECIAL.unk] for ids in self.encode_all(words)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; special tokens are skipped."""
        return self.decode_all([ids])[0]

    def encode_lines(self, text: str) -> list[int]:
        """Ids of plain text of one or more lines; each line is tokenized separately."""
        first, *others = self.encode_all(text.split("\n"))
        return first + [i for line in others for i in (self.line_break, *line)]

    def decode_lines(self, ids: Sequence[int]) -> str:
        """The plain text of ids, line breaks included."""
        lines: list[list[int]] = [[]]
        for i in map(int, ids):
            if i == self.line_break:
                lines.append([])
            else:
                lines[-1].append(i)
        return "\n".join(self.decode_all(lines))

    def has_token(self, text: str) -> bool:
        """Whether a text is encoded as a single token."""
        return len(self.encode(text)) == 1

    def nbest_encode(self, text: str, count: int) -> list[tuple[list[int], float]]:
        """Up to `count` segmentations of a text, best first, with their log-probabilities."""
        ids = self.encode(text)
        return [(ids, 0.0)] if ids else []
