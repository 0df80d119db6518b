"""Document context: previous sentences of a document as a part of each example.

The source of an example is the previous source sentences and the sentence itself, and the target
may have previous target sentences (Tiedemann and Scherrer, 2017, arXiv:1708.05943). Each previous
sentence ends with BOS, which no text contains and no search generates. So any tokenizer can be used
with context, and the last BOS is where the context ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, TypeVar

from regard.bounds import Ge, Le
from regard.config import Doc, Settings
from regard.text.special import SPECIAL

SEPARATOR = SPECIAL.bos
_MAX_SENTENCES = 50
T = TypeVar("T")


@dataclass(frozen=True)
class DocumentContext(Settings):
    """How many previous sentences of a document are the context of each example."""

    source: Annotated[int, Doc("previous source sentences"), Ge(0), Le(_MAX_SENTENCES)] = 0
    target: Annotated[int, Doc("previous target sentences"), Ge(0), Le(_MAX_SENTENCES)] = 0
    longest_target: Annotated[
        int,
        Doc("length of the longest training target with its context in subwords"),
        Ge(0),
        Le(2**31 - 1),
    ] = 0

    @property
    def size(self) -> int:
        """The number of previous sentences on the side with more of them; 0: no context."""
        return max(self.source, self.target)

    @property
    def counts(self) -> tuple[int, int]:
        """The numbers of previous source and target sentences."""
        return self.source, self.target

    def within(self, max_length: int | None) -> DocumentContext:
        """The context for a model of this maximum length, EOS included."""
        if max_length is None or self.longest_target < max_length:
            return self
        return replace(self, longest_target=max_length - 1)

    def __str__(self) -> str:
        return f"{self.source} source and {self.target} target sentences"


NO_CONTEXT = DocumentContext()


@dataclass(frozen=True)
class ContextOptions(Settings):
    """Options of document context."""

    source_context: Annotated[
        int,
        Doc(
            "document context: previous source sentences before each source; documents are "
            "separated by blank lines"
        ),
        Ge(0),
        Le(_MAX_SENTENCES),
    ] = 0
    target_context: Annotated[
        int,
        Doc("document context: previous target sentences before each target"),
        Ge(0),
        Le(_MAX_SENTENCES),
    ] = 0

    @property
    def document_context(self) -> DocumentContext:
        """The context of each example."""
        return DocumentContext(self.source_context, self.target_context)


def context_ids(previous: Sequence[Sequence[int]], limit: int) -> list[int]:
    """The context of an example: previous sentences, nearest last, each followed by a separator.

    Sentences from the far end are left out until there are at most `limit` ids.
    """
    first, length = len(previous), 0
    while first and length + len(previous[first - 1]) + 1 <= limit:
        first -= 1
        length += len(previous[first]) + 1
    return [*chain.from_iterable((*sentence, SEPARATOR) for sentence in previous[first:])]


def with_previous(
    items: Iterable[T], size: int, text_of: Callable[[T], str]
) -> Iterator[tuple[T, tuple[T, ...]]]:
    """Each item with up to `size` previous ones of its document; blank texts separate documents."""
    previous: deque[T] = deque(maxlen=size)
    for item in items:
        if text_of(item).strip():
            yield item, (*previous,)
            previous.append(item)
        else:
            yield item, ()
            previous.clear()
