"""The search of documents: prefixes are the translations before, and documents are parallel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from regard.data.document_context import SEPARATOR
from regard.decoding.backend import (
    BatchLimit,
    ContextLengths,
    Hypothesis,
    IdPair,
    Request,
    SearchResult,
)
from regard.decoding.config import SearchConfig
from regard.pipelines.document_search import DocumentSearch


class Letters:
    """A tokenizer of letters."""

    def encode(self, text: str) -> list[int]:
        return [ord(character) for character in text]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(map(chr, ids))


class Copying:
    """A backend whose translations are the sources; returns results in another order."""

    device, max_length, window = None, None, 8

    def __init__(self) -> None:
        self.calls: list[list[Request]] = []

    def batch_limit(self, config: SearchConfig) -> BatchLimit:
        return BatchLimit(100)

    def search(
        self, batches: Iterable[Sequence[Request]], config: SearchConfig
    ) -> Iterator[SearchResult]:
        requests = [request for batch in batches for request in batch]
        self.calls.append(requests)
        for number in reversed(range(len(requests))):
            yield SearchResult(number, [Hypothesis(requests[number].segment, -1.0, -1.0)])

    def token_log_probs(self, pairs: Sequence[IdPair]) -> list[list[float]]:
        raise AssertionError("not requested")


def request(text: str, room: int | None = 99, context: int = 0, prefix: str = "") -> Request:
    ids = [*[1] * context, *map(ord, text)]
    lengths = ContextLengths(context)
    return Request(ids, [*map(ord, prefix)], context=lengths, context_room=room)


def search(*windows: list[Request], sentences: int = 2) -> tuple[list[str], list[list[str]]]:
    """The translations, and the prefix and source of the requests of each call."""
    backend: Any = Copying()
    tokenizer: Any = Letters()
    documents = DocumentSearch(backend, SearchConfig(beam_size=1), tokenizer, sentences, None)
    results = dict(documents.stage.run(windows))
    texts = [tokenizer.decode(results[number][0].tokens) for number in range(len(results))]
    calls = [
        sorted(
            "".join("|" if i == SEPARATOR else chr(i) for i in each.prefix)
            + ">"
            + tokenizer.decode(each.segment)
            for each in call
        )
        for call in backend.calls
    ]
    return texts, calls


def test_prefixes_are_the_translations_before() -> None:
    texts, calls = search([request("a", None), request("b"), request("c"), request("d")])
    assert texts == ["a", "b", "c", "d"]
    assert calls == [[">a"], ["a|>b"], ["a|b|>c"], ["b|c|>d"]]


def test_documents_are_searched_in_parallel() -> None:
    window = [request("a", None), request("b"), request("c", None), request("d", None)]
    texts, calls = search([*window, request("e")])
    assert texts == ["a", "b", "c", "d", "e"]
    assert calls == [[">a", ">c", ">d"], ["a|>b", "d|>e"]]


def test_documents_continue_in_the_next_window() -> None:
    windows = [request("a", None), request("b")], [request("c"), request("d", None)], [request("e")]
    texts, calls = search(*windows)
    assert texts == ["a", "b", "c", "d", "e"]
    assert calls == [[">a"], ["a|>b"], [">d", "a|b|>c"], ["d|>e"]]


def test_context_is_shortened_and_precedes_the_forced_prefix() -> None:
    window = [request("abc", None), request("d"), request("e", 3, context=5, prefix="x")]
    texts, calls = search(window)
    assert texts == ["abc", "d", "e"]
    assert calls[-1] == ["d|x>e"]
    assert search([request("abc", None), request("d", 3)])[1][-1] == [">d"]
    assert search([request("abc", None), request("d", 4)], sentences=1)[1][-1] == ["abc|>d"]
