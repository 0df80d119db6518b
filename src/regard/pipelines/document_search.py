"""Search with target context: the sentences of a document one after another.

The context of a sentence are the best translations of those before it, so that documents, but not
their sentences, are searched in parallel. A document may extend over several windows of a stream.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from regard.data.document_context import context_ids
from regard.decoding.backend import (
    Backend,
    BatchLimit,
    ContextLengths,
    Hypothesis,
    Request,
    search_requests,
)
from regard.decoding.config import SearchConfig
from regard.pipelines.confidence import to_single_line
from regard.pipelines.stream import ModelStage
from regard.text.base import Tokenizer

Translations = deque[list[int]]  # the ids of the last ones of a document


@dataclass
class DocumentSearch:
    """Searches the requests of documents, in the order of the text."""

    backend: Backend
    config: SearchConfig
    tokenizer: Tokenizer  # of the target
    sentences: int  # of target context
    batch_size: int | None
    _last: Translations = field(init=False)  # those of the document that the last window ended in

    def __post_init__(self) -> None:
        self._last = self._no_translations()

    @property
    def stage(self) -> ModelStage[Request, list[Hypothesis]]:
        """The stage of a stream, whose batches are whole windows in the order of the text."""
        return ModelStage(self.run, lambda request: 0, BatchLimit(sys.maxsize))

    def run(self, windows: Iterable[Sequence[Request]]) -> Iterator[tuple[int, list[Hypothesis]]]:
        """The hypotheses of each request, by its number."""
        start = 0
        for window in windows:
            for number, hypotheses in self._search_window(window):
                yield start + number, hypotheses
            start += len(window)

    def _search_window(self, window: Sequence[Request]) -> Iterator[tuple[int, list[Hypothesis]]]:
        """All documents of a window: their first requests, then their second ones, and so on."""
        documents = _documents(window)
        previous = [self._no_translations() for _ in documents]
        if window[0].context_room is not None:
            previous[0] = self._last
        for position in range(max(map(len, documents))):
            active = [n for n, document in enumerate(documents) if position < len(document)]
            numbers = [documents[n][position] for n in active]
            requests = [
                self._in_context(window[number], previous[n])
                for n, number in zip(active, numbers, strict=True)
            ]
            results = search_requests(self.backend, requests, self.config, self.batch_size)
            for index, hypotheses in results:
                text = to_single_line(self.tokenizer.decode(hypotheses[0].tokens))
                previous[active[index]].append(self.tokenizer.encode(text))
                yield numbers[index], hypotheses
        self._last = previous[-1]

    def _no_translations(self) -> Translations:
        return deque(maxlen=self.sentences)

    def _in_context(self, request: Request, previous: Translations) -> Request:
        """A request whose prefix begins with the translations before it, as far as they fit."""
        ids = context_ids([*previous], request.context_room or 0)
        lengths = ContextLengths(request.context.source, len(ids))
        return request._replace(prefix=[*ids, *request.prefix], context=lengths)


def _documents(window: Sequence[Request]) -> list[list[int]]:
    """The indices of the requests of each document."""
    documents: list[list[int]] = []
    for number, request in enumerate(window):
        if request.context_room is None or not documents:
            documents.append([])
        documents[-1].append(number)
    return documents
