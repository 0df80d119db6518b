"""Streams of inputs through a model: inputs are encoded, batched by length, and outputs decoded.

    inputs -> windows -> chunks -> encode -> batches of a window -> model -> decode -> results

A window is a fixed number of inputs that are sorted by length before they are batched, so batches
depend neither on the speed of the input nor on the number of workers. Worker processes, if there
are any, encode and decode chunks while the model runs. Results have the order of the inputs, and
only a few windows are in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from regard.decoding.backend import BatchLimit, batch_by_length
from regard.pipelines.codec import Codec, InlineCodec, running_codec
from regard.pipelines.input_source import InputSource

_CHUNK = 256  # inputs that are encoded or decoded in one call
_MAX_UNFINISHED = 512  # chunks; if there are more, the model waits for the decoding of the first
I = TypeVar("I")  # noqa: E741  # inputs
X = TypeVar("X")  # items: what the model takes
Y = TypeVar("Y")  # outputs: what the model returns
R = TypeVar("R")  # results


@dataclass(frozen=True)
class ModelStage(Generic[X, Y]):
    """The stage of a stream that runs the model."""

    # Takes batches of items; returns outputs by the number of the item, counted over all batches.
    run: Callable[[Iterable[Sequence[X]]], Iterable[tuple[int, Y]]]
    length: Callable[[X], int]
    limit: BatchLimit


def run_stream(
    source: InputSource[I], codec: Codec[I, X, Y, R], stage: ModelStage[X, Y], workers: int = 0
) -> Iterator[R]:
    """The results of all inputs, in order."""
    with running_codec(codec, workers) as running:
        stream: _Stream[I, X, Y] = _Stream(source, running, stage, prefetched=int(workers > 0))
        while source.wait():
            # The batches end when no window is ready, so that results never wait for the input.
            for number, output in stage.run(stream.batches()):
                stream.add(number, output)
                yield from stream.finished()
            yield from stream.finished(wait=True)


@dataclass
class _Chunk(Generic[X, Y]):
    """Inputs that are encoded and decoded together."""

    encoded: Future[tuple[list[X], Any]]
    outputs: dict[int, Y] = field(default_factory=dict)  # by index of the item
    decoded: Future[list[Any]] | None = None


class _Stream(Generic[I, X, Y]):
    """The state of a stream: the inputs whose results have not been returned."""

    def __init__(
        self,
        source: InputSource[I],
        codec: InlineCodec,
        stage: ModelStage[X, Y],
        prefetched: int,
    ) -> None:
        self._source, self._codec, self._stage = source, codec, stage
        self._prefetched = prefetched  # windows whose encoding starts before they are needed
        self._windows: deque[list[_Chunk[X, Y]]] = deque()  # whose encoding has started
        self._chunks: deque[_Chunk[X, Y]] = deque()  # in input order
        self._items: dict[int, tuple[_Chunk[X, Y], int]] = {}  # those in the model, by number

    def batches(self) -> Iterator[list[X]]:
        """The batches of all windows that are ready."""
        number = 0
        while self._read_windows():
            for batch in batch_by_length(
                self._encoded_items(), lambda entry: self._stage.length(entry[2]), self._stage.limit
            ):
                for chunk, index, _ in batch:
                    self._items[number] = chunk, index
                    number += 1
                yield [item for _, _, item in batch]

    def _read_windows(self) -> bool:
        """Start to encode the windows that are ready; False if there are none."""
        while len(self._windows) <= self._prefetched and (window := self._source.take()):
            chunks: list[_Chunk[X, Y]] = [
                _Chunk(self._codec.encode(window[start : start + _CHUNK]))
                for start in range(0, len(window), _CHUNK)
            ]
            self._windows.append(chunks)
            self._chunks.extend(chunks)
        return bool(self._windows)

    def _encoded_items(self) -> list[tuple[_Chunk[X, Y], int, X]]:
        """The items of the next window with their chunks and indices."""
        entries = []
        for chunk in self._windows.popleft():
            items, _ = chunk.encoded.result()
            entries += [(chunk, index, item) for index, item in enumerate(items)]
            self._decode_if_complete(chunk)  # if all texts are blank
        return entries

    def add(self, number: int, output: Y) -> None:
        """Add the output of an item."""
        chunk, index = self._items.pop(number)
        chunk.outputs[index] = output
        self._decode_if_complete(chunk)

    def _decode_if_complete(self, chunk: _Chunk[X, Y]) -> None:
        items, context = chunk.encoded.result()
        if len(chunk.outputs) == len(items):
            outputs = [chunk.outputs[index] for index in range(len(items))]
            chunk.decoded = self._codec.decode(items, context, outputs)

    def finished(self, *, wait: bool = False) -> Iterator[Any]:
        """Remove the next results, as far as they are there; with `wait`, those of all chunks."""
        while self._chunks and (decoded := self._chunks[0].decoded):
            if not (wait or decoded.done() or len(self._chunks) > _MAX_UNFINISHED):
                return
            self._chunks.popleft()
            yield from decoded.result()
        assert not (wait and self._chunks), "the model returned too few outputs"
