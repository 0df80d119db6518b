"""Retry: bad translations are searched again, the better one is kept, and warnings say so."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import regard
from exchange.backend_models import run_search, to_ctranslate2, to_torch
from looping import looping_model, repeats_ngram
from regard.backends.retry import RetryBackend, retries
from regard.backends.search_backend import search_backend
from regard.data.store import Store
from regard.decoding.backend import Backend, BatchLimit, Hypothesis, IdPair, Request, SearchResult
from regard.decoding.config import SearchConfig
from regard.decoding.modes import decoding_mode
from regard.decoding.text_config import TextConfig
from toys import sentences, write_model_folder

SOURCES = sentences(7, seed=4)
GOOD = [[*range(20, 32)], [*range(40, 44)]]
NO_TEXT: Any = None  # only needed to rank translations
LOOP, STUCK = [*range(50, 62)], [*range(70, 82)]


class Looping:
    """Copies sources; those of `LOOP` repeat a token unless n-grams must not, `STUCK` always."""

    max_length: int | None = None
    device = None
    window = 100

    def __init__(self) -> None:
        self.searched: list[tuple[list[int], SearchConfig]] = []

    def batch_limit(self, config: SearchConfig) -> BatchLimit:
        return BatchLimit(2)

    def search(
        self, batches: Iterable[Sequence[Request]], config: SearchConfig
    ) -> Iterator[SearchResult]:
        requests = [request for batch in batches for request in batch]
        for number, (source, *_) in enumerate(requests):
            self.searched.append((source, config))
            loops = source == STUCK or (source == LOOP and not config.no_repeat_ngram_size)
            tokens = [9] * 20 if loops else source
            best = Hypothesis(tokens, -3.0, -1.0)
            yield SearchResult(number, [best, best._replace(score=-2.0)][: config.num_hypotheses])

    def token_log_probs(self, pairs: Sequence[IdPair]) -> list[list[float]]:
        raise AssertionError("not requested")


def test_only_bad_translations_are_searched_again() -> None:
    inner = Looping()
    backend = RetryBackend(inner, TextConfig())
    nbests = run_search(backend, [GOOD[0], LOOP, GOOD[1], STUCK], num_hypotheses=2)
    assert [nbest[0].tokens for nbest in nbests] == [GOOD[0], LOOP, GOOD[1], [9] * 20]
    assert [nbest[0].warnings for nbest in nbests] == [
        (),
        ("is from a second search, since that of the first is repetitive",),
        (),
        ("is repetitive",),
    ]
    assert all(nbest[1].warnings == () for nbest in nbests)
    again = [source for source, config in inner.searched if config.no_repeat_ngram_size]
    assert sorted(again) == [LOOP, STUCK]


def test_a_second_search_does_not_replace_a_translation_that_has_its_terms() -> None:
    class Constrained(Looping):
        """Lacks a term if n-grams must not repeat."""

        def search(
            self, batches: Iterable[Sequence[Request]], config: SearchConfig
        ) -> Iterator[SearchResult]:
            for number, [best] in super().search(batches, config):
                warnings = ("lacks a term",) if config.no_repeat_ngram_size else ()
                yield SearchResult(number, [best._replace(warnings=warnings)])

    [[best]] = run_search(RetryBackend(Constrained(), TextConfig()), [LOOP])
    assert (best.tokens, best.warnings) == ([9] * 20, ("is repetitive",))


def test_settings_of_the_second_search() -> None:
    backend = RetryBackend(Looping(), TextConfig())
    second = backend.guarded_config(SearchConfig(beam_size=2, num_hypotheses=2))
    assert (second.beam_size, second.num_hypotheses) == (2, 2)
    assert (second.no_repeat_ngram_size, second.min_ratio) == (3, 0.4)
    assert (second.max_ratio, second.max_extra) == (1.5, 10)
    restricted = SearchConfig(no_repeat_ngram_size=2, max_ratio=1.0, max_extra=3, min_ratio=0.7)
    assert backend.guarded_config(restricted) == restricted
    assert backend.guarded_config(SearchConfig(no_repeat_ngram_size=5)).no_repeat_ngram_size == 3


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, True),
        ({"beam_size": 1}, True),
        ({"sample": True}, False),
        ({"at_limit": "cut"}, False),
    ],
)
def test_searches_that_are_not_repeated(settings: dict[str, Any], expected: bool) -> None:
    config = SearchConfig(**settings)
    mode = decoding_mode(config, "autoregressive")
    assert retries(config, TextConfig(), mode) == expected
    assert not retries(config, TextConfig(retry=False), mode)
    assert not retries(config, TextConfig(), "CTC decoding")


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("library", ["torch", "ctranslate2"])
def test_a_model_that_loops_is_cured(library: str, beam_size: int, tmp_path: Path) -> None:
    model = looping_model()
    plain: Backend = to_torch(model) if library == "torch" else to_ctranslate2(model, tmp_path)
    config = SearchConfig(beam_size=beam_size)
    mode = decoding_mode(config, "autoregressive")
    backend = search_backend(config, TextConfig(), plain, pytest.fail, mode, NO_TEXT)
    first = run_search(plain, SOURCES, beam_size=beam_size)
    second = run_search(backend, SOURCES, beam_size=beam_size)
    cured = 0
    for [before], [after] in zip(first, second, strict=True):
        if after.tokens == before.tokens and not repeats_ngram(before.tokens[-12:], 3):
            assert after == before
        else:
            assert after.warnings
            cured += not repeats_ngram(after.tokens, 3)
    assert cured >= 3
    without = search_backend(config, TextConfig(retry=False), plain, pytest.fail, mode, NO_TEXT)
    assert without is plain
    for size in (1, 3):
        again = run_search(backend, SOURCES, beam_size=beam_size, batch_size=size)
        for [expected], [actual] in zip(second, again, strict=True):
            assert (actual.tokens, actual.warnings) == (expected.tokens, expected.warnings)
            assert actual.score == pytest.approx(expected.score, abs=1e-4)


def test_warnings_of_a_translator(reversal_store: Store, tmp_path: Path) -> None:
    model = regard.load(write_model_folder(tmp_path / "model", reversal_store))
    notices: list[str] = []
    settings: Any = {"max_ratio": 0.0, "max_extra": 2, "notice": notices.append}
    [blank, warned] = model.translate(["", "a b c d e"], **settings)
    assert blank.warnings == []
    assert warned.warnings == ["did not end before the maximum length"]
    assert notices == ["Line 2 has a translation that did not end before the maximum length."]
    [plain] = model.translate(["a b c d e"], retry=False, **settings)
    assert (plain.warnings, plain.text) == ([], warned.text)
    [rendered] = model.translate_rendered(["a b c d e"], _warnings, max_ratio=0.0, max_extra=2)
    assert rendered == json.dumps(warned.warnings)


def _warnings(translation: Any) -> str:
    return json.dumps(translation.warnings)
