"""The batcher: fairness, similar lengths, failures and cancellation."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.decoding.backend import BatchLimit
from regard.pipelines.stream import ModelStage
from regard.serving.batcher import Batcher, ClosedError, QueueFullError


class Recorder:
    """A model that notes its batches; it answers each item with its double."""

    def __init__(self, *, size: int = 4, in_tokens: bool = False) -> None:
        self.batches: list[list[Any]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.stage = ModelStage(self._run, self._length, BatchLimit(size, in_tokens))
        self.fail: Callable[[Any], bool] = lambda item: False

    @staticmethod
    def _length(item: Any) -> int:
        return len(item)

    def _run(self, batches: Iterable[Sequence[Any]]) -> Iterator[tuple[int, Any]]:
        for batch in batches:
            self.gate.wait(10)
            self.batches.append([*batch])
            if any(map(self.fail, batch)):
                raise ValueError("bad item")
            yield from ((index, item * 2) for index, item in enumerate(batch))

    def block(self, batcher: Batcher) -> Any:
        """Occupy the only thread of a batcher until `gate` is set."""
        self.gate.clear()
        job = batcher.submit("blocking", self.stage, ["b"])
        while batcher.queued:
            time.sleep(0.001)
        return job


def test_outputs_are_in_the_order_of_the_items() -> None:
    model, batcher = Recorder(), Batcher(2, 100, 1000)
    items = ["a" * n for n in (5, 1, 30, 2, 7, 1)]
    jobs = [batcher.submit("g", model.stage, items) for _ in range(5)]
    assert all(job.future.result(10) == [item * 2 for item in items] for job in jobs)
    assert batcher.submit("g", model.stage, []).future.result(1) == []
    assert batcher.queued == batcher.active_jobs == 0
    batcher.close()
    batcher.join(10)
    with pytest.raises(ClosedError):
        batcher.submit("g", model.stage, ["a"])


@settings(max_examples=30)
@given(
    st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=8), min_size=1, max_size=8),
    st.integers(1, 5),
    st.booleans(),
)
def test_batches_are_within_the_limits(jobs: list[list[int]], size: int, in_tokens: bool) -> None:
    model, batcher = (
        Recorder(size=50 if in_tokens else size, in_tokens=in_tokens),
        Batcher(1, 60, 999),
    )
    first = model.block(batcher)
    texts = [["x" * length for length in lengths] for lengths in jobs]
    submitted = [batcher.submit("g", model.stage, items) for items in texts]
    model.gate.set()
    for job, items in zip(submitted, texts, strict=True):
        assert job.future.result(10) == [item * 2 for item in items]
    first.future.result(10)
    batcher.close()
    for batch in model.batches[1:]:
        lengths = [*map(len, batch)]
        assert len(batch) == 1 or sum(lengths) <= (50 if in_tokens else 60)
        assert in_tokens or len(batch) <= size
        assert lengths[0] * 1.5 + 8 >= max(lengths)
        assert (lengths[0] - 8) / 1.5 <= min(lengths)
    assert sum(map(len, model.batches)) == 1 + sum(map(len, jobs))


def test_short_requests_do_not_wait_for_long_texts() -> None:
    model, batcher = Recorder(size=1), Batcher(1, 100, 1000)
    first = model.block(batcher)
    long_text = batcher.submit("g", model.stage, ["long sentence"] * 20)
    short = [batcher.submit("g", model.stage, [f"short {n}"]) for n in range(3)]
    model.gate.set()
    for job in (first, long_text, *short):
        job.future.result(10)
    order = [batch[0] for batch in model.batches]
    assert [order.index(f"short {n}") for n in range(3)] <= [2, 3, 4]
    batcher.close()


def test_long_texts_advance_while_short_requests_keep_coming() -> None:
    model, batcher = Recorder(size=1), Batcher(1, 100, 1000)
    first = model.block(batcher)
    long_text = batcher.submit("g", model.stage, ["0123456789"] * 5)
    model.gate.set()
    count = 0
    while not long_text.future.done() and count < 500:  # another short one as soon as one is done
        batcher.submit("g", model.stage, ["9876543210"]).future.result(10)
        count += 1
    assert long_text.future.done()
    assert count < 50
    first.future.result(1)
    batcher.close()


def test_other_settings_and_other_lengths_have_batches_of_their_own() -> None:
    model, batcher = Recorder(), Batcher(1, 100, 1000)
    model.block(batcher)
    jobs = [
        batcher.submit(group, model.stage, [text])
        for group, text in [("a", "one"), ("b", "two"), ("a", "six"), ("a", "x" * 50)]
    ]
    model.gate.set()
    for job in jobs:
        job.future.result(10)
    assert sorted(map(sorted, model.batches[1:])) == [["one", "six"], ["two"], ["x" * 50]]
    batcher.close()


def test_a_bad_item_fails_alone() -> None:
    model, batcher = Recorder(), Batcher(1, 100, 1000)
    model.fail = lambda item: item == "bad"
    model.block(batcher)
    jobs = [batcher.submit("g", model.stage, [text]) for text in ("good", "bad", "fine")]
    model.gate.set()
    assert jobs[0].future.result(10) == ["goodgood"]
    assert jobs[2].future.result(10) == ["finefine"]
    with pytest.raises(ValueError, match="bad item"):
        jobs[1].future.result(10)
    batcher.close()


def test_a_cancelled_job_frees_the_queue() -> None:
    model, batcher = Recorder(), Batcher(1, 100, max_queue=5)
    blocking = model.block(batcher)
    job = batcher.submit("g", model.stage, ["a"] * 5)
    with pytest.raises(QueueFullError):
        batcher.submit("g", model.stage, ["b"])
    assert job.future.cancel()
    assert batcher.queued == 0
    assert blocking.future.cancel()  # while the model runs
    other = batcher.submit("g", model.stage, ["b"])
    model.gate.set()
    assert other.future.result(10) == ["bb"]
    assert sum(map(len, model.batches)) == 2
    with pytest.raises(CancelledError):
        job.future.result(1)
    batcher.close()


def test_outputs_are_reported_as_they_are_ready() -> None:
    model, batcher = Recorder(size=1), Batcher(1, 100, 1000)
    reported: list[tuple[int, Any]] = []
    job = batcher.submit("g", model.stage, ["a", "b"], lambda *output: reported.append(output))
    job.future.result(10)
    assert reported == [(0, "aa"), (1, "bb")]
    batcher.close()


def test_closing_finishes_the_queue() -> None:
    model, batcher = Recorder(size=1), Batcher(1, 100, 1000)
    model.block(batcher)
    job = batcher.submit("g", model.stage, ["a"] * 10)
    batcher.close()
    model.gate.set()
    assert job.future.result(10) == ["aa"] * 10
    batcher.join(10)
