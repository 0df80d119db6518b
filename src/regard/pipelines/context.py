"""Document context at translation: the texts before a text, as context of its segments."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from regard.data.document_context import (
    NO_CONTEXT,
    DocumentContext,
    context_ids,
    with_previous,
)
from regard.data.model_text import ModelText
from regard.decoding.backend import ContextLengths, Request
from regard.decoding.text_config import InputConfig

Segments = Sequence[list[int]]  # the ids of segments, without tags


class Source(NamedTuple):
    """A text to translate, and the forced prefix of its translation."""

    text: str
    prefix: str = ""
    context: tuple[str, ...] = ()  # previous texts of its document


class TextPair(NamedTuple):
    """A source and its target."""

    source: str
    target: str
    context: tuple[tuple[str, str], ...] = ()  # previous pairs of its document


def context_of_texts(text: ModelText, config: InputConfig) -> DocumentContext:
    """The context of texts for a model."""
    return text.document_context if config.document_context else NO_CONTEXT


def target_room(context: DocumentContext, source: Sequence[int]) -> int:
    """The maximum number of ids of target context, given a source without context.

    The target, which is not known yet, is assumed to be as long as the source.
    """
    return max(0, context.longest_target - len(source))


def in_documents(sources: Iterable[Source], context: DocumentContext) -> Iterable[Source]:
    """Sources with those before them as context; blank ones separate documents."""
    if not context.size:
        return sources
    return (
        source._replace(context=tuple(each.text for each in previous))
        for source, previous in with_previous(sources, context.size, lambda source: source.text)
    )


def pairs_in_documents(
    pairs: Iterable[Sequence[str]], context: DocumentContext
) -> Iterator[TextPair]:
    """Pairs with those before them as context; blank sources separate documents."""
    texts = ((source, target) for source, target in pairs)
    for pair, previous in with_previous(texts, context.size, lambda pair: pair[0]):
        yield TextPair(*pair, previous)


class ContextEncoder:
    """Adds context to requests.

    The context of a segment are the segments before it, of the same text and of previous ones.
    """

    def __init__(self, context: DocumentContext, segments_of: Callable[[str], Segments]) -> None:
        """`segments_of` returns the segments of a text."""
        self._context, self._segments_of = context, segments_of
        self._known: dict[str, Segments] = {}  # of texts that are encoded together

    def add(
        self, source: Source, segments: Segments, requests: Iterable[Request], limit: int
    ) -> Iterator[Request]:
        """The requests of the segments of a text, in their context.

        `limit` is the maximum number of ids of a source with its context.
        """
        self._known[source.text] = segments
        previous: deque[list[int]] = deque(maxlen=self._context.size)
        for text in source.context:
            if text not in self._known:
                self._known[text] = self._segments_of(text)
            previous.extend(self._known[text])
        for segment, request in zip(segments, requests, strict=True):
            yield self._in_context(request, [*previous], limit) if previous else request
            previous.append(segment)

    def _in_context(self, request: Request, previous: Segments, limit: int) -> Request:
        """A request with source context, and room for target context."""
        count, source = self._context.source, request.source
        ids = context_ids(previous[-count:] if count else [], limit - len(source))
        return request._replace(
            source=[*ids, *source],
            context=ContextLengths(len(ids)),
            context_room=target_room(self._context, source),
        )
