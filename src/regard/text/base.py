"""What every tokenizer is to the rest of the house."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from regard.text.config import TokenizerConfig
from regard.text.special import SPECIAL


class Tokenizer(ABC):
    """One language's subwords; two of them are equal if they were made from the same files."""

    model: bytes  # what it was made from
    config: TokenizerConfig

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tokenizer):
            return NotImplemented
        return (self.model, self.config) == (other.model, other.config)

    def __hash__(self) -> int:
        return hash(self.model)

    @property
    @abstractmethod
    def vocab_size(self) -> int:
        """How many ids there are, marks included."""

    @abstractmethod
    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of many texts, without start or end; quicker than one by one."""

    @abstractmethod
    def decode_all(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        """The texts of many ids; marks give no text."""

    @abstractmethod
    def pieces(self, ids: Sequence[int]) -> list[str]:
        """What each id looks like, for pictures."""

    @abstractmethod
    def word_begins(self) -> list[bool]:
        """For each id, whether its piece begins a word."""

    @property
    @abstractmethod
    def line_break(self) -> int:
        """The id between two lines of a running text."""

    def encode(self, text: str) -> list[int]:
        """Ids of a text, without start or end."""
        return self.encode_all([text])[0]

    def encode_words(self, words: Sequence[str]) -> list[list[int]]:
        """Ids of each word of a sentence, as if a space stood before it; none is without ids."""
        return [ids or [SPECIAL.unknown] for ids in self.encode_all(words)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; marks give no text."""
        return self.decode_all([ids])[0]

    def encode_lines(self, text: str) -> list[int]:
        """Ids of a running text, which may have several lines; each is cut as if it were alone."""
        first, *others = self.encode_all(text.split("\n"))
        return first + [i for line in others for i in (self.line_break, *line)]

    def decode_lines(self, ids: Sequence[int]) -> str:
        """The running text of ids."""
        lines: list[list[int]] = [[]]
        for i in map(int, ids):
            if i == self.line_break:
                lines.append([])
            else:
                lines[-1].append(i)
        return "\n".join(self.decode_all(lines))

    def knows(self, tag: str) -> bool:
        """Whether a tag is one subword."""
        return len(self.encode(tag)) == 1

    def best_cuts(self, text: str, count: int) -> list[tuple[list[int], float]]:
        """Up to `count` ways to cut a text, best first, with their log-probabilities."""
        ids = self.encode(text)
        return [(ids, 0.0)] if ids else []
