"""Added tokens, matched in text before subword tokenization, as in HuggingFace tokenizers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from regard.config import Settings
from regard.schema import JsonReader

CLEAN_UP_REPLACEMENTS = (  # applied to decoded text in this order
    *((" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't")),
    *((" 'm", "'m"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re")),
)


@dataclass(frozen=True)
class AddedToken(Settings):
    """A token that is matched in text before subword tokenization."""

    content: str
    lstrip: bool = False  # also removes the whitespace before it
    rstrip: bool = False
    single_word: bool = False
    normalized: bool | None = None  # match in normalized text; None: the library's default
    special: bool = False  # omitted from decoded text

    def __str__(self) -> str:
        return self.content

    def to_huggingface(self) -> Any:
        """Convert to a `tokenizers.AddedToken`."""
        import tokenizers

        options = {name: value for name, value in asdict(self).items() if value is not None}
        return tokenizers.AddedToken(**options)


@dataclass(frozen=True)
class _File(Settings):
    """The fields of `special_tokens.json`."""

    tokens: dict[str, AddedToken]
    silent: tuple[int, ...]
    splits: bool
    clean_up: bool


@dataclass(frozen=True)
class AddedTokens:
    """Added tokens for a tokenizer without support for them, such as SentencePiece."""

    tokens: dict[int, AddedToken] = field(default_factory=dict)  # by id
    silent: frozenset[int] | None = None  # ids omitted from decoded text; None: special tokens
    splits: bool = True  # whether text is split at added tokens
    clean_up: bool = False  # whether spaces before punctuation are removed from decoded text

    @staticmethod
    def from_json(content: bytes, reader: JsonReader, where: str, size: int) -> AddedTokens:
        """Parse what `to_json` wrote, for a tokenizer with `size` ids."""
        table = reader.build(_File, reader.parse(content, where), where)
        for token_id in table.tokens:
            if not token_id.isdecimal() or int(token_id) >= size:
                raise reader.content_error(where, f"tokens has the id {token_id[:40]}")
        tokens = {int(token_id): token for token_id, token in table.tokens.items()}
        return AddedTokens(tokens, frozenset(table.silent), table.splits, table.clean_up)

    def to_json(self) -> bytes:
        """The content of `special_tokens.json`."""
        tokens = {str(token_id): asdict(token) for token_id, token in sorted(self.tokens.items())}
        table = {"tokens": tokens, "silent": sorted(self.silent or ()), "splits": self.splits}
        return json.dumps({**table, "clean_up": self.clean_up}, indent=2).encode()

    @cached_property
    def ids(self) -> dict[str, int]:
        """Ids by token."""
        return {token.content: token_id for token_id, token in self.tokens.items()}

    @cached_property
    def _split_at_tokens(self) -> Callable[[str], list[str]]:
        """Function that splits a text around added tokens, leftmost and longest match first."""
        if not any(self.ids):
            return lambda text: [text]
        longest_first = sorted(filter(None, self.ids), key=len, reverse=True)
        return re.compile(f"({'|'.join(map(re.escape, longest_first))})").split

    def split(self, text: str) -> list[str | int]:
        """Split a text into plain strings and ids of added tokens."""
        if not self.splits:
            return [text]
        parts = [part for part in self._split_at_tokens(text) if part]
        self._strip(parts)
        return [self.ids.get(part, part) for part in parts if part]

    def _strip(self, parts: list[str]) -> None:
        """Apply `lstrip`, `rstrip` and `single_word` of the tokens in place."""
        for index, part in enumerate(parts):
            if part not in self.ids:
                continue
            token = self.tokens[self.ids[part]]
            left = parts[index - 1] if index else ""
            right = parts[index + 1] if index + 1 < len(parts) else ""
            if token.rstrip and right:
                parts[index + 1] = right.lstrip()
            if token.lstrip and left:
                parts[index - 1] = left.rstrip()
            if token.single_word and left and left[-1] != " ":
                parts[index - 1] += part
                parts[index] = ""
            elif token.single_word and right and right[0] != " ":
                parts[index + 1] = part + parts[index + 1]
                parts[index] = ""

    def clean_up_text(self, text: str) -> str:
        """Decoded text with the clean-up applied, if it is enabled."""
        for before, after in CLEAN_UP_REPLACEMENTS if self.clean_up else ():
            text = text.replace(before, after)
        return text
