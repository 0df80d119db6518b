"""Eager and captured searches agree; without a GPU, captured steps run eagerly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from regard.backends.torch_backend import TorchBackend
from regard.data.pairs import with_eos
from regard.data.ragged import Ragged
from regard.decoding import runners
from regard.decoding.backend import Hypothesis, Request, search_requests
from regard.decoding.config import SearchConfig
from regard.decoding.runners import CudaGraphRunner, EagerRunner, nested_tensors
from regard.decoding.search import search
from toys import AUTOREGRESSIVE_VARIANTS, autoregressive_model, sentences, small_transformer

GPU = torch.cuda.is_available()
CONFIGS = {
    "greedy": SearchConfig(beam_size=1),
    "beam": SearchConfig(beam_size=3, num_hypotheses=3),
    "guarded greedy": SearchConfig(beam_size=1, no_repeat_ngram_size=2, banned_sequences=((7,),)),
    "guarded beam": SearchConfig(
        beam_size=3, no_repeat_ngram_size=2, repetition_penalty=1.3, min_ratio=0.8
    ),
    "diverse beam": SearchConfig(beam_size=6, num_hypotheses=6, beam_groups=3, min_ratio=0.5),
    "forced length": SearchConfig(beam_size=3, min_length=7, max_ratio=0.0, max_extra=8),
}


class EagerStep:
    """A replacement for `CapturedStep` where there is no GPU: runs the function."""

    def __init__(self, function: Callable[[], Any], pool: Any) -> None:
        self._function = function

    def __call__(self) -> Any:
        return self._function()


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> CudaGraphRunner:
    if not GPU:
        monkeypatch.setattr(runners, "CapturedStep", EagerStep)
        monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    return CudaGraphRunner()


def assert_equal(actual: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    for left, right in zip(actual, expected, strict=True):
        assert [h.tokens for h in left] == [h.tokens for h in right]
        assert [h.score for h in left] == pytest.approx([h.score for h in right], abs=1e-5)


@pytest.mark.skipif(GPU, reason="capture needs a side stream; see the test of the backend")
@pytest.mark.parametrize("variant", AUTOREGRESSIVE_VARIANTS)
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_captured_search_matches_eager_search(
    variant: str, config: SearchConfig, captured: CudaGraphRunner
) -> None:
    model = autoregressive_model(4, **AUTOREGRESSIVE_VARIANTS[variant])
    if not model.step_capturable:
        pytest.skip("its steps depend on the position on the host")
    for seed in range(3):  # batches of the same shape reuse the captured search
        source = with_eos(sentences(8, seed=seed)).padded_to(16)
        prefixes = [[7, 8] if row == seed else [] for row in range(8)]
        actual = search(model, source, config, prefixes=prefixes, runner=captured)
        eager = search(model, source, config, prefixes=prefixes, runner=EagerRunner())
        assert_equal(actual, eager)


@pytest.mark.skipif(GPU, reason="as above")
def test_long_outputs_stay_within_the_capacity(captured: CudaGraphRunner) -> None:
    model, config = small_transformer(), SearchConfig(beam_size=4, min_length=70)
    for seed in range(2):  # the second search reuses the tensors of the first
        source = with_eos(sentences(2, seed=seed)).padded_to(16)
        actual = search(model, source, config, runner=captured)
        assert_equal(actual, search(model, source, config, runner=EagerRunner()))


def test_captured_batch_is_halved_when_half_is_done(captured: CudaGraphRunner) -> None:
    assert captured.rows_to_keep([True, False, True, True]) is None
    assert captured.rows_to_keep([False, True, False, True]) == [1, 3]
    assert captured.rows_to_keep([False, False, True, False]) == [2, 0]
    assert captured.rows_to_keep([True]) is None


def test_eager_batch_drops_finished_rows_from_a_tenth_on() -> None:
    assert EagerRunner().rows_to_keep([True] * 11 + [False]) is None
    assert EagerRunner().rows_to_keep([True] * 9 + [False]) == list(range(9))
    assert EagerRunner().rows_to_keep([True, False, True, False, True, True]) == [0, 5, 2, 4]
    assert EagerRunner().rows_to_keep([False, False, False, True]) == [3]


def test_tensors_of_decoder_state() -> None:
    source = Ragged.of([[4, 5], [6]])
    model = small_transformer()
    state = model.start(source, beams=2, capacity=3)
    shapes = [tuple(part.shape) for part in nested_tensors(state)]
    assert len(shapes) == 4 * len(state.caches) + 4  # two KV pairs; encoder output; beam history


@pytest.mark.skipif(not GPU, reason="needs a GPU")
@pytest.mark.parametrize("variant", ["vanilla", "LSTM", "LSTM, fed", "convolutional"])
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_gpu_backend_matches_cpu_backend(config: SearchConfig, variant: str) -> None:
    model, same = (autoregressive_model(4, **AUTOREGRESSIVE_VARIANTS[variant]) for _ in range(2))
    gpu = TorchBackend([same.cuda()], torch.device("cuda"), "float32")
    cpu = TorchBackend([model], torch.device("cpu"))
    for seed in range(4):
        sources = sentences(21, seed=seed)
        requests = [Request(ids, [7, 8] if ids[0] % 5 == 0 else []) for ids in sources]
        actual, expected = (
            [result.hypotheses for result in sorted(search_requests(backend, requests, config, 8))]
            for backend in (gpu, cpu)
        )
        assert_equal(actual, expected)
