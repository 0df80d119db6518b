"""However a search goes on, it finds the same; without a GPU, recorded work is done as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from regard.data.pairs import with_ends
from regard.data.ragged import Ragged
from regard.decoding import steps
from regard.decoding.config import SearchConfig
from regard.decoding.engine import Hypothesis, Job
from regard.decoding.search import search
from regard.decoding.steps import CudaGraphRunner, EagerRunner, tensors_of
from regard.decoding.torch_engine import TorchEngine
from toys import EVERY_FORM, sentences, small_model, some_model

GPU = torch.cuda.is_available()
CONFIGS = {
    "greedy": SearchConfig(beam_size=1),
    "beam": SearchConfig(beam_size=3, top_beams=3),
    "forced length": SearchConfig(beam_size=3, min_length=7, max_ratio=0.0, max_extra=8),
}


class Done:
    """What stands for a recording where there is no GPU: the work."""

    def __init__(self, work: Callable[[], Any], pool: Any) -> None:
        self._work = work

    def __call__(self) -> Any:
        return self._work()


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> CudaGraphRunner:
    if not GPU:
        monkeypatch.setattr(steps, "Recording", Done)
        monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    return CudaGraphRunner()


def assert_equal(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert [h.tokens for h in ours] == [h.tokens for h in theirs]
        assert [h.score for h in ours] == pytest.approx([h.score for h in theirs], abs=1e-5)


@pytest.mark.skipif(GPU, reason="recordings need a stream of their own; see the engine's test")
@pytest.mark.parametrize("form", EVERY_FORM)
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_recorded_steps_find_the_same(
    form: str, config: SearchConfig, recorded: CudaGraphRunner
) -> None:
    model = some_model(4, **EVERY_FORM[form])
    if not model.can_be_recorded:
        pytest.skip("it counts distances")
    for seed in range(3):  # batches of one shape use the same slot, whatever came before
        source = with_ends(sentences(8, seed=seed)).up_to(16)
        prefixes = [[7, 8] if row == seed else [] for row in range(8)]
        found = search(model, source, config, prefixes=prefixes, runner=recorded)
        plain = search(model, source, config, prefixes=prefixes, runner=EagerRunner())
        assert_equal(found, plain)


@pytest.mark.skipif(GPU, reason="as above")
def test_long_texts_keep_within_the_room_that_was_made(recorded: CudaGraphRunner) -> None:
    model, config = small_model(), SearchConfig(beam_size=4, min_length=70)
    for seed in range(2):  # the second finds what the first left
        source = with_ends(sentences(2, seed=seed)).up_to(16)
        found = search(model, source, config, runner=recorded)
        assert_equal(found, search(model, source, config, runner=EagerRunner()))


def test_half_leaves_when_half_is_done(recorded: CudaGraphRunner) -> None:
    assert recorded.staying([True, False, True, True]) is None
    assert recorded.staying([False, True, False, True]) == [1, 3]
    assert recorded.staying([False, False, True, False]) == [2, 0]
    assert recorded.staying([True]) is None


def test_a_tenth_leaves_and_the_last_take_their_places() -> None:
    assert EagerRunner().staying([True] * 11 + [False]) is None
    assert EagerRunner().staying([True] * 9 + [False]) == list(range(9))
    assert EagerRunner().staying([True, False, True, False, True, True]) == [0, 5, 2, 4]
    assert EagerRunner().staying([False, False, False, True]) == [3]


def test_all_tensors_are_found() -> None:
    source = Ragged.of([[4, 5], [6]])
    model = small_model()
    state = model.start(source, beams=2, room=3)
    shapes = [tuple(part.shape) for part in tensors_of(state)]
    assert len(shapes) == 4 * len(state.caches) + 4  # keys and values twice; sources; the trail


@pytest.mark.skipif(not GPU, reason="needs a GPU")
@pytest.mark.parametrize("form", ["the paper's", "LSTM", "LSTM, fed", "convolutional"])
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_an_engine_on_a_gpu_finds_the_same(config: SearchConfig, form: str) -> None:
    model, same = (some_model(4, **EVERY_FORM[form]) for _ in range(2))
    engine = TorchEngine([same.cuda()], torch.device("cuda"), "float32")
    plain = TorchEngine([model], torch.device("cpu"))
    for seed in range(4):
        jobs = [Job(ids, [7, 8] if ids[0] % 5 == 0 else []) for ids in sentences(21, seed=seed)]
        found, expected = (
            [found.hypotheses for found in sorted(one.search(jobs, config, 8))]
            for one in (engine, plain)
        )
        assert_equal(found, expected)
