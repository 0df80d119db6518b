"""A document: the texts to translate, in order, and how it is written with their translations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from regard.markup.block import Block, BlockText

Part = str | Block  # text to copy, or to translate


class ReadOptions(NamedTuple):
    """How a document is read."""

    name: str  # for error messages
    ignored: tuple[str, ...] = ()  # HTML elements that are not translated
    retranslate: bool = False  # whether texts that have a translation are translated, too


class DocumentText(NamedTuple):
    """A text to translate, and the number of its line or paragraph."""

    text: str  # a `BlockText` in formats with markup
    number: int


@dataclass(frozen=True)
class Document:
    """The texts of a document."""

    texts: Sequence[DocumentText]
    # The content of the file with translations of all texts, and with the target language if known;
    # called once.
    write: Callable[[Sequence[str], str | None], bytes]
    has_markup: bool = True  # whether the texts are blocks; if not, they may be in any markup
    unit: str = "line"  # what the numbers of the texts count


def is_translatable(text: str) -> bool:
    """Whether a text without markup has letters; others, such as numbers, are copied."""
    return any(map(str.isalpha, text))


def block_texts(parts: Sequence[Part], number: int) -> Iterator[DocumentText]:
    """The blocks of a document or paragraph whose first line has this number."""
    for part in parts:
        if isinstance(part, Block):
            yield DocumentText(BlockText(part), number)


def with_translations(parts: Sequence[Part], translations: Iterator[str]) -> str:
    """The parts joined, with the next translation in place of each block."""
    return "".join(next(translations) if isinstance(part, Block) else part for part in parts)


def source_of(parts: Sequence[Part]) -> str:
    """The parts joined as in the source."""
    return "".join(part.raw if isinstance(part, Block) else part for part in parts)
