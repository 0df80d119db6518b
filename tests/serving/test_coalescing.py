"""Requests with equal keys share a computation, which outlives an impatient client."""

from __future__ import annotations

import asyncio

import pytest

from regard.serving.coalescing import Coalescing


class Work:
    """A computation that ends when `end` is set."""

    def __init__(self) -> None:
        self.starts = 0
        self.end = asyncio.Event()
        self.was_cancelled = False

    async def run(self) -> int:
        self.starts += 1
        try:
            await self.end.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        return self.starts


async def hang_up(task: asyncio.Task[int]) -> None:
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_second_attempt_finds_the_work_of_the_first() -> None:
    async def run() -> None:
        work, coalescing = Work(), Coalescing(grace=5)
        await hang_up(asyncio.create_task(coalescing.run("key", work.run)))
        second = asyncio.create_task(coalescing.run("key", work.run))
        other = asyncio.create_task(coalescing.run("other", work.run))
        await asyncio.sleep(0.01)
        work.end.set()
        assert await second == 2  # the number of starts
        assert await other == 2
        assert await coalescing.run("key", work.run) == 3  # results are not kept

    asyncio.run(run())


def test_abandoned_work_is_cancelled_after_a_while() -> None:
    async def run() -> None:
        work, coalescing = Work(), Coalescing(grace=0.02)
        await hang_up(asyncio.create_task(coalescing.run("key", work.run)))
        before = work.was_cancelled
        await asyncio.sleep(0.1)
        assert (before, work.was_cancelled) == (False, True)
        work.end.set()
        assert await coalescing.run("key", work.run) == 2

    asyncio.run(run())


def test_a_result_that_came_too_late_is_kept_for_a_while() -> None:
    async def run() -> None:
        work, coalescing = Work(), Coalescing(grace=0.2)
        await hang_up(asyncio.create_task(coalescing.run("key", work.run)))
        work.end.set()
        await asyncio.sleep(0.02)
        assert await coalescing.run("key", work.run) == 1
        assert work.starts == 1

    asyncio.run(run())


def test_errors_are_those_of_the_work() -> None:
    async def fail() -> int:
        raise ValueError("bad")

    async def run() -> None:
        coalescing = Coalescing(grace=1)
        for _ in range(2):
            with pytest.raises(ValueError, match="bad"):
                await coalescing.run("key", fail)

    asyncio.run(run())
