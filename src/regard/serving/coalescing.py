"""Coalescing of equal requests, for clients that hang up after a while and try again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any


class Coalescing:
    """Requests with equal keys share one computation, which outlives a client for a while.

    The client of DeepL hangs up after ten seconds and sends the request again; the second attempt
    then finds the work of the first.
    """

    def __init__(self, grace: float) -> None:
        self._grace = grace  # seconds for which an abandoned computation goes on
        self._tasks: dict[Hashable, asyncio.Task[Any]] = {}
        self._waiting: dict[Hashable, int] = {}

    async def run(self, key: Hashable, start: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """The result of `start`, or of an equal request in progress."""
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.create_task(start())
            task.add_done_callback(lambda finished: self._finish(key, finished))
        self._waiting[key] = self._waiting.get(key, 0) + 1
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                asyncio.get_running_loop().call_later(self._grace, self._give_up, key, task)
            raise
        finally:
            self._waiting[key] -= 1
            if task.done() and not self._waiting[key]:
                self._forget(key, task)

    def _finish(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        """Keep the result of an abandoned computation for a while."""
        if not task.cancelled():
            task.exception()
        if not self._waiting.get(key):
            asyncio.get_running_loop().call_later(self._grace, self._forget, key, task)

    def _give_up(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        if self._tasks.get(key) is task and not self._waiting.get(key):
            task.cancel()
            self._forget(key, task)

    def _forget(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        if self._tasks.get(key) is task and not self._waiting.get(key):
            del self._tasks[key]
            self._waiting.pop(key, None)
