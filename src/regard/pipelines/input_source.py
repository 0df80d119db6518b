"""Sources of a stream: its inputs in windows of a fixed size, from memory or read by a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from queue import Empty, Full, Queue
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
_POLL_SECONDS = 0.5  # between checks of whether the stream has ended


class InputSource(Protocol[T_co]):
    """Where the windows of a stream come from."""

    def wait(self) -> bool:
        """Wait for a window; False at the end. Raises errors of the input after its last window."""
        ...

    def take(self) -> Sequence[T_co] | None:
        """The next window; None if it has not been read yet, or at the end."""
        ...


class InMemorySource(Generic[T]):
    """Windows of a sequence."""

    def __init__(self, inputs: Sequence[T], window: int) -> None:
        self._inputs, self._window, self._start = inputs, window, 0

    def wait(self) -> bool:
        """Whether there are more inputs."""
        return self._start < len(self._inputs)

    def take(self) -> Sequence[T] | None:
        """The next window."""
        start, self._start = self._start, self._start + self._window
        return self._inputs[start : self._start] or None


class BackgroundSource(Generic[T]):
    """Windows of an iterable that may block; a thread reads them.

    `on_wait` is called before the stream waits for input.
    """

    def __init__(
        self, inputs: Iterable[T], window: int, on_wait: Callable[[], object] = lambda: None
    ) -> None:
        self._inputs, self._window, self._on_wait = iter(inputs), window, on_wait
        self._queue: Queue[list[T]] = Queue(maxsize=1)  # an empty window is the end
        self._next: list[T] | None = None
        self._error: BaseException | None = None
        self._stopped = threading.Event()

    def __enter__(self) -> BackgroundSource[T]:
        threading.Thread(target=self._read, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopped.set()  # the thread is not joined, since its input may block

    def _read(self) -> None:
        window: list[T] = []
        try:
            while True:
                window = []
                window.extend(islice(self._inputs, self._window))
                if not window or not self._put(window):
                    break
        except BaseException as error:
            self._error = error
            if window:  # the inputs before the error
                self._put(window)
        self._put([])

    def _put(self, window: list[T]) -> bool:
        """Queue a window; False if the stream has ended."""
        while not self._stopped.is_set():
            try:
                self._queue.put(window, timeout=_POLL_SECONDS)
            except Full:
                continue
            return True
        return False

    def wait(self) -> bool:
        """Wait for a window."""
        if self._next is None:
            if self._queue.empty():
                self._on_wait()
            self._next = self._queue.get()
        if not self._next and self._error is not None:
            raise self._error
        return bool(self._next)

    def take(self) -> list[T] | None:
        """The next window, if it has been read."""
        if self._next is None:
            try:
                self._next = self._queue.get_nowait()
            except Empty:
                return None
        if not self._next:
            return None  # `wait` reports the end
        window, self._next = self._next, None
        return window
