"""Tokens that are looked for in a text before it is tokenized, as HuggingFace's tokenizers do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from regard.config import Settings
from regard.schema import JsonReader

CLEANED = (  # what clean-up replaces in decoded text, in this order
    *((" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't")),
    *((" 'm", "'m"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re")),
)


@dataclass(frozen=True)
class AddedToken(Settings):
    """A token that is looked for in text before all else."""

    content: str
    lstrip: bool = False  # whether it takes the spaces before it
    rstrip: bool = False
    single_word: bool = False
    normalized: bool | None = None  # whether it is looked for in normalized text; None: if special
    special: bool = False  # whether it is left out of decoded text

    def __str__(self) -> str:
        return self.content

    def for_library(self) -> Any:
        """The same in the package `tokenizers`."""
        import tokenizers

        given = {name: value for name, value in asdict(self).items() if value is not None}
        return tokenizers.AddedToken(**given)


@dataclass(frozen=True)
class _File(Settings):
    """The fields of the file of `AddedTokens`."""

    tokens: dict[str, AddedToken]
    silent: tuple[int, ...]
    splits: bool
    clean_up: bool


@dataclass(frozen=True)
class AddedTokens:
    """The added tokens of a tokenizer that knows none itself, such as SentencePiece."""

    tokens: dict[int, AddedToken] = field(default_factory=dict)  # by id
    silent: frozenset[int] | None = None  # ids that are left out of decoded text; None: the marks
    splits: bool = True  # whether they are looked for in text
    clean_up: bool = False  # whether decoded text loses the spaces before punctuation

    @staticmethod
    def from_json(content: bytes, reader: JsonReader, where: str, size: int) -> AddedTokens:
        """What `to_json` wrote, of a tokenizer with so many ids."""
        table = reader.build(_File, reader.parse(content, where), where)
        for number in table.tokens:
            if not number.isdecimal() or int(number) >= size:
                raise reader.wrong(where, f"tokens has the id {number[:40]}")
        tokens = {int(number): token for number, token in table.tokens.items()}
        return AddedTokens(tokens, frozenset(table.silent), table.splits, table.clean_up)

    def to_json(self) -> bytes:
        """As a file."""
        tokens = {str(number): asdict(token) for number, token in sorted(self.tokens.items())}
        table = {"tokens": tokens, "silent": sorted(self.silent or ()), "splits": self.splits}
        return json.dumps({**table, "clean_up": self.clean_up}, indent=2).encode()

    @cached_property
    def ids(self) -> dict[str, int]:
        """Ids by token."""
        return {token.content: number for number, token in self.tokens.items()}

    @cached_property
    def _cut(self) -> Callable[[str], list[str]]:
        """Cuts a text before and after each token, the leftmost and longest first."""
        if not any(self.ids):
            return lambda text: [text]
        longest_first = sorted(filter(None, self.ids), key=len, reverse=True)
        return re.compile(f"({'|'.join(map(re.escape, longest_first))})").split

    def parts(self, text: str) -> list[str | int]:
        """A text as plain parts and ids of added tokens."""
        if not self.splits:
            return [text]
        parts = [part for part in self._cut(text) if part]
        self._strip(parts)
        return [self.ids.get(part, part) for part in parts if part]

    def _strip(self, parts: list[str]) -> None:
        """Spaces that tokens take, and tokens that had to be words and are none."""
        for place, part in enumerate(parts):
            if part not in self.ids:
                continue
            token = self.tokens[self.ids[part]]
            left = parts[place - 1] if place else ""
            right = parts[place + 1] if place + 1 < len(parts) else ""
            if token.rstrip and right:
                parts[place + 1] = right.lstrip()
            if token.lstrip and left:
                parts[place - 1] = left.rstrip()
            if token.single_word and left and left[-1] != " ":
                parts[place - 1] += part
                parts[place] = ""
            elif token.single_word and right and right[0] != " ":
                parts[place + 1] = part + parts[place + 1]
                parts[place] = ""

    def cleaned(self, text: str) -> str:
        """Decoded text."""
        for before, after in CLEANED if self.clean_up else ():
            text = text.replace(before, after)
        return text
