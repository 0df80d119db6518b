"""Validation of input texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from regard.errors import ConfigError, DataError


def refuse_single_text(texts: Iterable[object]) -> None:
    """Raise an error for a single string or bytes, which would be read as a list of characters."""
    if isinstance(texts, str | bytes):
        raise ConfigError('A list of texts is required, not a single text: pass ["..."].')
    if not isinstance(texts, Iterable):
        raise ConfigError(f"A list of texts is required, not {type(texts).__name__}.")


def checked_texts(texts: Sequence[str], label: str = "Text") -> list[str]:
    """The texts as a list; raises an error with the number of the first invalid text."""
    refuse_single_text(texts)
    return [*check_each(texts, label)]


def check_each(texts: Iterable[str], label: str = "Text") -> Iterator[str]:
    """The texts one by one; raises an error with the number of an invalid text."""
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str):
            raise ConfigError(
                f"{label} {number} is of type {type(text).__name__}, not str. Decode it."
            )
        try:
            text.encode()
        except UnicodeEncodeError:
            raise DataError(
                f"{label} {number} contains an unpaired surrogate, which is not a valid character. "
                "Remove it."
            ) from None
        yield text


def check_pairs(pairs: Iterable[Sequence[str]]) -> Iterator[tuple[str, str]]:
    """The pairs of texts one by one; raises an error with the number of an invalid pair."""
    refuse_single_text(pairs)
    for number, pair in enumerate(pairs, 1):
        texts = checked_texts(pair, f"Pair {number}: text")
        if len(texts) != 2:
            raise ConfigError(f"Pair {number} has {len(texts)} texts, but must have two.")
        yield texts[0], texts[1]
