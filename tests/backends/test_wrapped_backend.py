"""Wrapped backends: each request meets its own hypotheses, in any order of results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch

from regard.backends.wrapped_backend import Searched, WrappedBackend
from regard.decoding.backend import BatchLimit, Hypothesis, IdPair, Request, SearchResult
from regard.decoding.config import SearchConfig


class Copying:
    """Copies the source of each request, and returns the results of a batch in reverse order."""

    max_length: int | None = 12
    device: torch.device | None = None
    window = 100

    def batch_limit(self, config: SearchConfig) -> BatchLimit:
        return BatchLimit(config.beam_size)

    def search(
        self, batches: Iterable[Sequence[Request]], config: SearchConfig
    ) -> Iterator[SearchResult]:
        start = 0
        for batch in batches:
            for number, request in reversed([*enumerate(batch, start)]):
                hypothesis = Hypothesis(request.source, -1.0, -1.0)
                yield SearchResult(number, [hypothesis] * config.num_hypotheses)
            start += len(batch)

    def token_log_probs(self, pairs: Sequence[IdPair]) -> list[list[float]]:
        return [[float(sum(source)), *map(float, target)] for source, target in pairs]


class First(WrappedBackend):
    """Searches for three hypotheses and keeps one; its score says to which request it belongs."""

    def inner_config(self, config: SearchConfig) -> SearchConfig:
        return SearchConfig(beam_size=7, num_hypotheses=3)

    def process(
        self, searched: Sequence[Searched], config: SearchConfig
    ) -> Iterable[list[Hypothesis]]:
        for request, hypotheses in searched:
            assert len(hypotheses) == 3
            yield [hypotheses[0]._replace(score=float(sum(request.source)))]


def test_requests_meet_their_hypotheses() -> None:
    batches = [[Request([n, n + 1], []) for n in range(start, start + 90)] for start in (0, 90)]
    backend = First(Copying())
    results = dict(backend.search(batches, SearchConfig()))
    assert [*results] == [*range(89, -1, -1), *range(179, 89, -1)]
    for number, hypotheses in results.items():
        assert hypotheses == [Hypothesis([number, number + 1], -1.0, 2.0 * number + 1)]
    assert backend.batch_limit(SearchConfig()) == BatchLimit(7)
    assert (backend.max_length, backend.window, backend.device) == (12, 100, None)
    assert backend.token_log_probs([([1, 2], [3])]) == [[3.0, 3.0]]


def test_results_do_not_wait_for_longer_than_a_window() -> None:
    class Rare(First):
        """Processes the first request."""

        def is_final(self, searched: Searched, config: SearchConfig) -> bool:
            return searched.request.source != [0]

    batches = ([Request([number], [])] for number in range(10 * Copying.window))
    numbers = [result.request for result in Rare(Copying()).search(batches, SearchConfig())]
    assert sorted(numbers) == [*range(10 * Copying.window)]
    assert numbers.index(0) == Copying.window - 1
