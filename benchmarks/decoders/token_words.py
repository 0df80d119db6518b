"""Ids as words such as `w17`, for toolkits that read text: no toolkit tokenizes by itself."""

from __future__ import annotations

from collections.abc import Sequence

SPECIAL_TOKENS = ["<pad>", "<unk>", "<s>", "</s>"]  # in the order of regard's ids
PAD, UNK, BOS, EOS = range(len(SPECIAL_TOKENS))


def vocabulary(size: int, special_tokens: Sequence[str] = SPECIAL_TOKENS) -> list[str]:
    """All words in the order of their ids."""
    return [*special_tokens, *(f"w{number}" for number in range(len(SPECIAL_TOKENS), size))]


def to_text(ids: Sequence[int]) -> str:
    """The words of ids, separated by spaces."""
    return " ".join(f"w{number}" for number in ids)


def to_ids(text: str) -> list[int]:
    """The ids of words; special tokens are skipped."""
    return [int(word[1:]) for word in text.split() if word.startswith("w")]
