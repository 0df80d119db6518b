"""Codecs convert texts to token ids and back, in this process or in worker processes."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.queues import Queue
from multiprocessing.reduction import ForkingPickler
from typing import Any, Protocol, TypeVar

from regard.errors import RunError

I_contra = TypeVar("I_contra", contravariant=True)  # inputs
X = TypeVar("X")  # items: what the model takes
Y_contra = TypeVar("Y_contra", contravariant=True)  # outputs: what the model returns
R = TypeVar("R")  # results
MIN_INPUTS = 32  # fewer are encoded and decoded in the main process


class Codec(Protocol[I_contra, X, Y_contra, R]):
    """Converts inputs to items for a model, and outputs to results; pickled for workers."""

    def encode(self, inputs: Sequence[I_contra], /) -> tuple[list[X], Any]:
        """Any number of items, and a context for `decode`."""
        ...

    def decode(self, items: Sequence[X], context: Any, outputs: Sequence[Y_contra], /) -> list[R]:
        """A result for each input, given an output for each item."""
        ...


class InlineCodec:
    """Runs a codec in this process."""

    def __init__(self, codec: Codec[Any, Any, Any, Any]) -> None:
        self._codec = codec

    def encode(self, inputs: Sequence[Any]) -> Future[tuple[list[Any], Any]]:
        """Encode inputs now."""
        return _finished(self._codec.encode(inputs))

    def decode(
        self, items: Sequence[Any], context: Any, outputs: Sequence[Any]
    ) -> Future[list[Any]]:
        """Decode outputs now."""
        return _finished(self._codec.decode(items, context, outputs))


def _finished(result: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(result)
    return future


class WorkerCodec(InlineCodec):
    """Runs a codec in worker processes, but a few inputs in this process, which takes less time."""

    def __init__(self, codec: Codec[Any, Any, Any, Any], pool: ProcessPoolExecutor) -> None:
        super().__init__(codec)
        self._pool = pool

    def encode(self, inputs: Sequence[Any]) -> Future[tuple[list[Any], Any]]:
        """Encode inputs in a worker."""
        if len(inputs) < MIN_INPUTS:
            return super().encode(inputs)
        return self._pool.submit(_encode_in_worker, inputs)

    def decode(
        self, items: Sequence[Any], context: Any, outputs: Sequence[Any]
    ) -> Future[list[Any]]:
        """Decode outputs in a worker."""
        if len(items) < MIN_INPUTS:
            return super().decode(items, context, outputs)
        return self._pool.submit(_decode_in_worker, items, context, outputs)


@contextmanager
def running_codec(codec: Codec[Any, Any, Any, Any], workers: int) -> Iterator[InlineCodec]:
    """The codec in this process, or in a number of worker processes."""
    if not workers:
        yield InlineCodec(codec)
        return
    context = get_context("spawn")  # threads and CUDA do not survive a fork
    # Not an argument of the workers: this process would wait forever for one that ends before it
    # has read its arguments, as in a script without `if __name__ == "__main__":`.
    pickled = bytes(ForkingPickler.dumps(codec))
    codecs = context.Queue()
    codecs.cancel_join_thread()
    for _ in range(workers):
        codecs.put(pickled)
    pool = ProcessPoolExecutor(workers, context, _start_worker, (codecs,))
    processes = pool._processes
    try:
        yield WorkerCodec(codec, pool)
    except BrokenProcessPool:
        for process in [*processes.values()]:  # they may wait for a lock that the dead one held
            process.kill()
        raise RunError(
            "A worker process for tokenization ended early, perhaps for lack of memory, or in a "
            'script without `if __name__ == "__main__":`. Use fewer workers: --workers 0 uses none.'
        ) from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


_worker_codec: Codec[Any, Any, Any, Any]  # of a worker process


def _start_worker(codecs: Queue[bytes]) -> None:
    """Ignore signals: Ctrl-C is sent to all processes, and the main one ends the workers."""
    global _worker_codec
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _worker_codec = ForkingPickler.loads(codecs.get())


def _exit_with_parent() -> None:
    """End this worker if the main process is killed; it would wait for work forever."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _encode_in_worker(inputs: Sequence[Any]) -> tuple[list[Any], Any]:
    return _worker_codec.encode(inputs)


def _decode_in_worker(items: Sequence[Any], context: Any, outputs: Sequence[Any]) -> list[Any]:
    return _worker_codec.decode(items, context, outputs)
