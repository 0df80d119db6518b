"""Hypotheses are aligned whatever library ran the search, and only where that is needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from exchange.backend_models import to_ctranslate2, to_torch
from regard.backends.aligners import Pair
from regard.backends.alignment_backend import AlignmentBackend
from regard.decoding.backend import Backend, Request, search_requests
from regard.decoding.config import SearchConfig
from toys import sentences, small_transformer


class LastPosition:
    """Aligns each token to the last source token."""

    def align(self, pairs: Sequence[Pair]) -> list[list[int]]:
        return [[len(source) - 1] * len(target) for source, target in pairs]


@pytest.mark.parametrize("library", ["torch", "ctranslate2"])
def test_requests_that_need_it_are_aligned(library: str, tmp_path: Path) -> None:
    model = small_transformer()
    inner: Backend = to_torch(model) if library == "torch" else to_ctranslate2(model, tmp_path)
    backend = AlignmentBackend(inner, LastPosition)
    requests = [Request(ids, [], n % 2 == 0) for n, ids in enumerate(sentences(6))]
    config = SearchConfig(beam_size=3, num_hypotheses=2)
    plain = dict(search_requests(inner, requests, config, None))
    for number, nbest in search_requests(backend, requests, config, None):
        assert [h._replace(alignment=None) for h in nbest] == plain[number]
        for hypothesis in nbest:
            last = [len(requests[number].source) - 1] * len(hypothesis.tokens)
            assert hypothesis.alignment == (last if number % 2 == 0 else None)


def test_without_an_aligner_hypotheses_are_not_aligned() -> None:
    backend = AlignmentBackend(to_torch(small_transformer()), lambda: None)
    [result] = search_requests(backend, [Request([5, 6], [], True)], SearchConfig(), None)
    assert result.hypotheses[0].alignment is None
