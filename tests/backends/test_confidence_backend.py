"""Token log-probs of hypotheses: those of forced decoding, with all backends and searches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from exchange.backend_models import run_search, to_ctranslate2, to_torch
from regard.backends.confidence_backend import ConfidenceBackend, computes_confidence
from regard.backends.retry import RetryBackend
from regard.backends.torch_backend import NonAutoregressiveBackend, TorchBackend
from regard.data.batch import Batch
from regard.data.pairs import with_eos
from regard.decoding.backend import Backend
from regard.decoding.score import token_log_probs
from regard.decoding.text_config import TextConfig
from regard.errors import ConfigError
from toys import nonautoregressive_model, sentences, small_transformer

SOURCES = sentences(70, seed=5)  # more than are processed together
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"beam_size": 1, "scores": False},
    "beam": {"beam_size": 4, "num_hypotheses": 3, "length_penalty": 0.6},
    "guarded": {"beam_size": 2, "no_repeat_ngram_size": 1, "repetition_penalty": 1.5},
}


def backends(path: Path) -> dict[str, Backend]:
    model = small_transformer(seed=2)
    return {"torch": to_torch(model), "ctranslate2": to_ctranslate2(model, path)}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Backend]:
    return backends(tmp_path_factory.mktemp("exported"))


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
@pytest.mark.parametrize("name", ["torch", "ctranslate2"])
def test_log_probs_are_those_of_forced_decoding(
    both: dict[str, Backend], name: str, search: dict[str, Any]
) -> None:
    model = small_transformer(seed=2)
    backend = ConfidenceBackend(both[name])
    for source, nbest in zip(SOURCES, run_search(backend, SOURCES, **search), strict=True):
        for hypothesis in nbest:
            batch = Batch(with_eos([source]), with_eos([hypothesis.tokens]))
            with torch.inference_mode():
                expected = token_log_probs(model, batch).tolist()
            assert hypothesis.token_log_probs == pytest.approx(expected, abs=1e-4)
            if search.get("repetition_penalty") is None and search.get("scores", True):
                total = sum(hypothesis.token_log_probs or [])
                assert total == pytest.approx(hypothesis.log_probability, abs=1e-4)


def test_searches_are_unchanged(both: dict[str, Backend]) -> None:
    for backend in both.values():
        plain = run_search(backend, SOURCES, num_hypotheses=2)
        wrapped = run_search(ConfidenceBackend(backend), SOURCES, num_hypotheses=2)
        assert [
            [hypothesis._replace(token_log_probs=None) for hypothesis in nbest] for nbest in wrapped
        ] == plain


def test_samples_retries_and_prefixes(both: dict[str, Backend]) -> None:
    torch_backend = ConfidenceBackend(RetryBackend(both["torch"], TextConfig()))
    prefixes = [[7, 8]] * len(SOURCES)
    for search in ({"sample": True, "temperature": 3.0}, {"beam_size": 2}):
        nbests = run_search(torch_backend, SOURCES, prefixes=prefixes, **search)
        for source, [hypothesis] in zip(SOURCES, nbests, strict=True):
            assert hypothesis.tokens[:2] == [7, 8]
            [row] = both["ctranslate2"].token_log_probs([(source, hypothesis.tokens)])
            assert hypothesis.token_log_probs == pytest.approx(row, abs=1e-3)


def test_ensembles_average_probabilities() -> None:
    models = [small_transformer(seed) for seed in (1, 2)]
    ensemble = TorchBackend(models, torch.device("cpu"))
    for search in ({"beam_size": 3}, {"sample": True}):
        for [hypothesis] in run_search(ConfidenceBackend(ensemble), SOURCES[:9], **search):
            total = sum(hypothesis.token_log_probs or [])
            assert total == pytest.approx(hypothesis.log_probability, abs=1e-4)


def test_empty_hypothesis_has_the_log_prob_of_eos(both: dict[str, Backend]) -> None:
    rows = [backend.token_log_probs([([5, 6], [])]) for backend in both.values()]
    assert rows[0][0] == pytest.approx(rows[1][0], abs=1e-4)
    assert len(rows[0][0]) == 1


def test_non_autoregressive_models_are_refused() -> None:
    assert not computes_confidence(TextConfig(), "CTC decoding")
    assert computes_confidence(TextConfig(min_confidence=0.1), "sampling")
    with pytest.raises(ConfigError, match="not available for non-autoregressive models"):
        computes_confidence(TextConfig(confidence=True), "CTC decoding")
    backend = NonAutoregressiveBackend(nonautoregressive_model(), torch.device("cpu"))
    with pytest.raises(ConfigError, match="Token probabilities are not available"):
        backend.token_log_probs([([5], [6])])
