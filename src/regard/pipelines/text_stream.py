"""Streams of texts: results in order, and messages about single texts with their line numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Generic, NamedTuple, TypedDict, TypeVar

from regard.bounds import Bound, Ge, Le, refuse_out_of_bounds
from regard.decoding.backend import BatchLimit, refuse_bad_batch_size
from regard.decoding.runtime import MAX_WINDOW, MAX_WORKERS
from regard.errors import ConfigError
from regard.machine import core_count
from regard.notices import Notice
from regard.pipelines.codec import Codec
from regard.pipelines.input_source import BackgroundSource, InMemorySource, InputSource
from regard.pipelines.stream import ModelStage, run_stream

if TYPE_CHECKING:
    import torch

I = TypeVar("I")  # noqa: E741  # inputs
X = TypeVar("X")  # items
Y = TypeVar("Y")  # outputs
R = TypeVar("R")  # results
_MANY = 20_000  # texts for which starting workers takes a small part of the time


class Remarked(NamedTuple, Generic[R]):
    """A result, and what a notice says about its line, or nothing."""

    result: R
    remark: str = ""  # follows the words "Line 3 "


class StreamKeywords(TypedDict, total=False):
    """Keyword arguments of methods that process an iterable of texts: see `StreamOptions`."""

    batch_size: int | None
    window: int | None
    workers: int
    notice: Notice
    line_numbers: Iterable[int] | None
    unit: str
    on_wait: Callable[[], object]


@dataclass(frozen=True)
class StreamOptions:
    """How an iterable of texts is processed."""

    batch_size: int | None = None  # texts; default: chosen by the model's backend
    # Texts that are sorted by length before they are batched; default: chosen by the backend.
    window: int | None = None
    workers: int = 0  # processes that tokenize and detokenize
    notice: Notice = lambda text: None  # called with messages for the user
    line_numbers: Iterable[int] | None = None  # of the texts in notices; default: 1, 2, ...
    unit: str = "Line"  # what the numbers in notices count
    on_wait: Callable[[], object] = lambda: None  # called before the stream waits for texts

    def __post_init__(self) -> None:
        refuse_bad_batch_size(self.batch_size)
        _refuse_bad_number("workers", self.workers, Ge(0), Le(MAX_WORKERS))
        if self.window is not None:
            _refuse_bad_number("window", self.window, Ge(1), Le(MAX_WINDOW))


def _refuse_bad_number(name: str, value: object, *bounds: Bound) -> None:
    """Raise a ConfigError unless a value is an integer within bounds."""
    if type(value) is not int:
        raise ConfigError(f"{name} is {value!r}, but must be an integer.")
    refuse_out_of_bounds(name, value, *bounds)


@dataclass(frozen=True)
class TextStream(Generic[I, X, Y, R]):
    """A pipeline from texts to results: a codec around a model."""

    codec: Codec[I, X, Y, Remarked[R]]
    stage: ModelStage[X, Y]
    window: int  # default

    def map(self, inputs: Sequence[I], notice: Notice = lambda text: None) -> list[R]:
        """The results of inputs in memory."""
        source = InMemorySource(inputs, self.window)
        return [*self._run(source, StreamOptions(notice=notice))]

    def iterate(self, inputs: Iterable[I], options: StreamOptions) -> Iterator[R]:
        """The results of any number of inputs, which a thread reads."""
        window = self.window if options.window is None else options.window
        with BackgroundSource(inputs, window, options.on_wait) as source:
            yield from self._run(source, options)

    def _run(self, source: InputSource[I], options: StreamOptions) -> Iterator[R]:
        numbers = iter(options.line_numbers or count(1))
        for result, remark in run_stream(source, self.codec, self.stage, options.workers):
            number = next(numbers)
            if remark:
                options.notice(f"{options.unit} {number} {remark}")
            yield result


def model_stage(
    run_batch: Callable[[list[X]], Iterable[Y]], length: Callable[[X], int], size: int
) -> ModelStage[X, Y]:
    """A stage that runs a function on batches of up to `size` items, one after the other."""

    def run(batches: Iterable[Sequence[X]]) -> Iterator[tuple[int, Y]]:
        start = 0
        for batch in batches:
            yield from enumerate(run_batch([*batch]), start)
            start += len(batch)

    return ModelStage(run, length, BatchLimit(size))


def default_workers(device: torch.device | None, texts: int | None = None) -> int:
    """Worker processes with which tokenization keeps up with a GPU; 0 on a CPU or for few texts."""
    is_slow = device is None or device.type == "cpu"
    if is_slow or (texts is not None and texts < _MANY):
        return 0
    return min(8, core_count() - 1)
