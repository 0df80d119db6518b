"""Backends around another backend: what happens between a search and its results.

A search setting that is not part of the search itself (another search where one went wrong, a
choice among candidates, probabilities of words) is a wrapper: it sees each request with its
hypotheses, whatever library ran the model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from regard.decoding.backend import (
    Backend,
    BatchLimit,
    Hypothesis,
    IdPair,
    Request,
    SearchResult,
)
from regard.decoding.config import SearchConfig

if TYPE_CHECKING:
    import torch

_CHUNK = 64  # results that are processed together


class Searched(NamedTuple):
    """A request and its hypotheses, best first."""

    request: Request
    hypotheses: list[Hypothesis]


class WrappedBackend(ABC):
    """Processes the results of another backend, a few requests at a time."""

    def __init__(self, inner: Backend) -> None:
        self.inner = inner

    def __str__(self) -> str:
        return str(self.inner)

    @property
    def max_length(self) -> int | None:
        """The maximum length of sources and targets, EOS included; None: unlimited."""
        return self.inner.max_length

    @property
    def device(self) -> torch.device | None:
        """The device of the model."""
        return self.inner.device

    @property
    def window(self) -> int:
        """The number of sentences that are sorted by length before they are batched."""
        return self.inner.window

    def inner_config(self, config: SearchConfig) -> SearchConfig:
        """The settings of the wrapped search."""
        return config

    def inner_request(self, request: Request) -> Request:
        """The request to the wrapped search."""
        return request

    def batch_limit(self, config: SearchConfig) -> BatchLimit:
        """The batch size that is used unless the user chooses one."""
        return self.inner.batch_limit(self.inner_config(config))

    def token_log_probs(self, pairs: Sequence[IdPair]) -> list[list[float]]:
        """The log-prob of each target token and of EOS, by forced decoding."""
        return self.inner.token_log_probs(pairs)

    def is_final(self, searched: Searched, config: SearchConfig) -> bool:
        """Whether the hypotheses of a request need no processing."""
        return False

    @abstractmethod
    def process(
        self, searched: Sequence[Searched], config: SearchConfig
    ) -> Iterable[list[Hypothesis]]:
        """The final hypotheses of each request."""

    def search(
        self, batches: Iterable[Sequence[Request]], config: SearchConfig
    ) -> Iterator[SearchResult]:
        """The processed results of the wrapped search.

        A result that needs processing waits for others, but not for longer than a window.
        """
        requests: dict[int, Request] = {}

        def recorded() -> Iterator[Sequence[Request]]:
            numbers = count()
            for batch in batches:
                requests.update((next(numbers), request) for request in batch)
                yield [*map(self.inner_request, batch)]

        chunk: list[SearchResult] = []
        passed = 0  # results since the first one of the chunk
        for result in self.inner.search(recorded(), self.inner_config(config)):
            if self.is_final(Searched(requests[result.request], result.hypotheses), config):
                del requests[result.request]
                yield result
            else:
                chunk.append(result)
            passed += len(chunk) > 0
            if len(chunk) == _CHUNK or passed == self.window:
                yield from self._process(chunk, requests, config)
                chunk, passed = [], 0
        yield from self._process(chunk, requests, config)

    def _process(
        self, results: Sequence[SearchResult], requests: dict[int, Request], config: SearchConfig
    ) -> Iterator[SearchResult]:
        if not results:
            return
        searched = [Searched(requests.pop(number), hypotheses) for number, hypotheses in results]
        processed = self.process(searched, config)
        for (number, _), hypotheses in zip(results, processed, strict=True):
            yield SearchResult(number, hypotheses)
