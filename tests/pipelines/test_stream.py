"""Streams: results equal those of single inputs, in order, in bounded memory."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.decoding.backend import BatchLimit
from regard.pipelines.codec import InlineCodec, running_codec
from regard.pipelines.input_source import BackgroundSource, InMemorySource
from regard.pipelines.stream import ModelStage, run_stream

STAGE_LIMIT = BatchLimit(3)


class WordCodec:
    """Each word of a text is an item; the upper-case words are joined."""

    def encode(self, inputs: Sequence[str]) -> tuple[list[str], list[int]]:
        words = [text.split() for text in inputs]
        return [word for row in words for word in row], [len(row) for row in words]

    def decode(self, items: Sequence[str], context: list[int], outputs: Sequence[str]) -> list[str]:
        assert [item.upper() for item in items] == list(outputs)
        rest = iter(outputs)
        return [" ".join(next(rest) for _ in range(count)) for count in context]


class ShufflingModel:
    """Returns outputs in any order, after it has taken a random number of batches."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self.batches: list[list[str]] = []

    def run(self, batches: Iterable[Sequence[str]]) -> Iterator[tuple[int, str]]:
        numbered: list[tuple[int, str]] = []
        count = 0
        for batch in batches:
            self.batches.append([*batch])
            numbered += enumerate((word.upper() for word in batch), count)
            count += len(batch)
            self._random.shuffle(numbered)
            for _ in range(self._random.randrange(len(numbered) + 1)):
                yield numbered.pop()
        yield from numbered


def stage(model: ShufflingModel, limit: BatchLimit = STAGE_LIMIT) -> ModelStage[str, str]:
    return ModelStage(model.run, len, limit)


def expected(texts: Sequence[str]) -> list[str]:
    return [" ".join(text.upper().split()) for text in texts]


@given(
    st.lists(st.text("ab ", max_size=8), max_size=700),
    st.integers(1, 300),
    st.integers(1, 20),
    st.booleans(),
    st.booleans(),
    st.integers(0, 100),
)
def test_results_do_not_depend_on_windows_batches_or_order(
    texts: list[str], window: int, size: int, in_tokens: bool, background: bool, seed: int
) -> None:
    limited = stage(ShufflingModel(seed), BatchLimit(size, in_tokens))
    if background:
        with BackgroundSource(texts, window) as source:
            results = [*run_stream(source, WordCodec(), limited)]
    else:
        results = [*run_stream(InMemorySource(texts, window), WordCodec(), limited)]
    assert results == expected(texts)


def test_batches_are_sorted_by_length_within_a_window() -> None:
    model = ShufflingModel()
    texts = ["a bbb", "cc", "dddd eeeee", "f", "gggggg", "hh"]
    list(run_stream(InMemorySource(texts, 4), WordCodec(), stage(model)))
    assert model.batches == [["eeeee", "dddd", "bbb"], ["cc", "a", "f"], ["gggggg", "hh"]]


def test_results_never_wait_for_input() -> None:
    """The producer of inputs waits for the results of all earlier ones, as in a dialogue."""
    answered = threading.Semaphore(0)

    def inputs() -> Iterator[str]:
        for text in ("a b", "", "c", "d e f"):
            yield text
            assert answered.acquire(timeout=30), "a result waits for input"

    waits: list[None] = []
    with BackgroundSource(inputs(), 1, lambda: waits.append(None)) as source:
        results = []
        for result in run_stream(source, WordCodec(), stage(ShufflingModel())):
            results.append(result)
            answered.release()
    assert results == ["A B", "", "C", "D E F"]
    assert waits  # output can be flushed


def test_only_a_few_windows_are_read_ahead() -> None:
    read = 0

    def inputs() -> Iterator[str]:
        nonlocal read
        while True:
            read += 1
            yield "a"

    with BackgroundSource(inputs(), 10) as source:
        stream = run_stream(source, WordCodec(), stage(ShufflingModel()))
        ahead = [read - number for number, _ in zip(range(1000), stream, strict=False)]
    assert max(ahead) <= 100  # windows in the queue, in the thread and in the stream


def test_results_before_an_error_of_the_input_are_returned() -> None:
    def inputs() -> Iterator[str]:
        yield from ["a", "b c", "d"]
        raise ValueError("no more")

    with BackgroundSource(inputs(), 2) as source:
        stream = run_stream(source, WordCodec(), stage(ShufflingModel()))
        assert [next(stream) for _ in range(3)] == ["A", "B C", "D"]
        with pytest.raises(ValueError, match="no more"):
            next(stream)


def test_thread_ends_with_the_stream() -> None:
    def inputs() -> Iterator[str]:
        while True:
            yield "a"

    before = threading.active_count()
    with BackgroundSource(inputs(), 2) as source:
        next(run_stream(source, WordCodec(), stage(ShufflingModel())))
    for thread in threading.enumerate():
        if thread.daemon and thread is not threading.current_thread():
            thread.join(timeout=2)
    assert threading.active_count() <= before


def test_without_workers_codecs_run_in_this_process() -> None:
    with running_codec(WordCodec(), 0) as codec:
        assert isinstance(codec, InlineCodec)
        items, context = codec.encode(["a b", "c"]).result()
        assert codec.decode(items, context, ["A", "B", "C"]).result() == ["A B", "C"]
