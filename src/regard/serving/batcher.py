"""Dynamic batching: items of all requests share batches, and short requests do not wait for long.

Each request is a job: its items (segments of texts) wait in a queue until a thread puts them into a
batch. Threads take the next batch as soon as they have finished one, so nothing waits for a batch
to fill up, and items that arrive meanwhile are in the next one.

The order is that of start-time fair queuing: an item's tag is the amount of work, in tokens, that
its job has been given before it, counted from the virtual time at which the job arrived. Virtual
time passes as fast as each of the active jobs is served. A text of many segments is therefore
admitted piece by piece, and a short one gets in between; neither waits forever.

A batch has items with equal settings (a group) and of similar length, up to a number of tokens.
"""

from __future__ import annotations

import threading
from bisect import insort
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from regard.pipelines.stream import ModelStage

_SIMILAR, _MARGIN = 1.5, 8  # lengths of items in a batch: at most this ratio plus a few tokens
OnOutput = Callable[[int, Any], None]  # called with the index of an item and its output


class QueueFullError(Exception):
    """The queue has no room for the items of a job."""


class ClosedError(Exception):
    """The batcher takes no more jobs."""


@dataclass(eq=False)
class Job:
    """The items of a request, and their outputs."""

    group: Hashable
    stage: ModelStage[Any, Any]
    items: Sequence[Any]
    on_output: OnOutput | None = None
    # The outputs of all items, in order.
    future: Future[list[Any]] = field(default_factory=Future)
    outputs: dict[int, Any] = field(default_factory=dict)


@dataclass(order=True)
class _Entry:
    """An item in the queue."""

    tag: float
    number: int  # of the entry, so that the order is total
    length: int = field(compare=False)
    job: Job = field(compare=False)
    index: int = field(compare=False)

    @property
    def item(self) -> Any:
        """What the model gets."""
        return self.job.items[self.index]


Observer = Callable[[int, int], None]  # called with the items and tokens of each batch


class Batcher:
    """A queue of items and the threads that run a model on batches of them."""

    def __init__(
        self,
        threads: int,
        batch_tokens: int,
        max_queue: int,
        observe: Observer = lambda items, tokens: None,
        device_lock: AbstractContextManager[Any] | None = None,
    ) -> None:
        self._device_lock = device_lock or nullcontext()
        self._batch_tokens, self._max_queue, self._observe = batch_tokens, max_queue, observe
        self._condition = threading.Condition()
        self._groups: dict[Hashable, list[_Entry]] = {}  # sorted by tag
        self._jobs: set[Job] = set()
        self._queued = self._number = 0
        self._virtual_time = 0.0
        self._is_closed = False
        self._threads = [
            threading.Thread(target=self._run, name=f"batcher-{n}", daemon=True)
            for n in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def queued(self) -> int:
        """The number of items that wait."""
        return self._queued

    @property
    def active_jobs(self) -> int:
        """The number of jobs whose outputs are not complete."""
        return len(self._jobs)

    def submit(
        self,
        group: Hashable,
        stage: ModelStage[Any, Any],
        items: Sequence[Any],
        on_output: OnOutput | None = None,
    ) -> Job:
        """Queue the items of a request; items of equal groups may share batches.

        `on_output` is called in a thread of the batcher. Cancelling the future of the job removes
        its items from the queue. Raises a QueueFullError.
        """
        job = Job(group, stage, items, on_output)
        job.future.add_done_callback(lambda future: self._forget(job))
        if not items:
            job.future.set_result([])
            return job
        lengths = [*map(stage.length, items)]
        with self._condition:
            if self._is_closed:
                raise ClosedError
            if self._queued + len(items) > self._max_queue:
                raise QueueFullError
            entries = self._groups.setdefault(group, [])
            tag = self._virtual_time
            for index, length in enumerate(lengths):
                insort(entries, _Entry(tag, self._number, length, job, index))
                self._number += 1
                tag += length
            self._queued += len(items)
            self._jobs.add(job)
            self._condition.notify(min(len(items), len(self._threads)))
        return job

    def _forget(self, job: Job) -> None:
        """Remove a job that was cancelled; those of its items that are in a batch are ignored."""
        if job.future.cancelled():
            with self._condition:
                self._remove(job)

    def _remove(self, job: Job) -> None:
        self._jobs.discard(job)
        entries = self._groups.get(job.group)
        if entries is None:
            return
        remaining = [entry for entry in entries if entry.job is not job]
        self._queued -= len(entries) - len(remaining)
        self._keep(job.group, remaining)

    def _keep(self, group: Hashable, entries: list[_Entry]) -> None:
        """Replace the entries of a group."""
        if entries:
            self._groups[group] = entries
        else:
            self._groups.pop(group, None)

    def close(self) -> None:
        """Finish all jobs, then end the threads."""
        with self._condition:
            self._is_closed = True
            self._condition.notify_all()

    def join(self, timeout: float | None = None) -> None:
        """Wait until the threads have ended."""
        for thread in self._threads:
            thread.join(timeout)

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._groups:
                    if self._is_closed:
                        return
                    self._condition.wait()
                batch = self._next_batch()
            self._observe(len(batch), sum(entry.length for entry in batch))
            with self._device_lock:
                self._run_batch(batch)

    def _next_batch(self) -> list[_Entry]:
        """Remove the next batch from the queue: the first item, and others like it."""
        group = min(self._groups, key=lambda key: self._groups[key][0])
        entries = self._groups[group]
        first = entries[0]
        limit = first.job.stage.limit
        most_items = self._batch_tokens if limit.in_tokens else limit.size
        most_tokens = min(self._batch_tokens, limit.size) if limit.in_tokens else self._batch_tokens
        longest = first.length * _SIMILAR + _MARGIN
        shortest = (first.length - _MARGIN) / _SIMILAR
        batch: list[_Entry] = []
        rest: list[_Entry] = []
        tokens = 0
        for entry in entries:
            fits = len(batch) < most_items and tokens + entry.length <= most_tokens
            if not batch or (fits and shortest <= entry.length <= longest):
                batch.append(entry)
                tokens += entry.length
            else:
                rest.append(entry)
        self._keep(group, rest)
        self._queued -= len(batch)
        self._virtual_time += tokens / max(1, len(self._jobs))
        return batch

    def _run_batch(self, batch: list[_Entry]) -> None:
        """Run the model; each output is passed on as soon as it is there.

        If the model fails, the remaining items run one by one, so that only the bad one fails.
        """
        stage = batch[0].job.stage
        remaining = dict(enumerate(batch))
        try:
            for number, output in stage.run([[entry.item for entry in batch]]):
                self._add_output(remaining.pop(number), output)
            assert not remaining, "the model returned too few outputs"
        except BaseException as error:
            if len(batch) == 1:
                self._fail(batch[0].job, error)
                return
            for entry in remaining.values():
                if entry.job in self._jobs:
                    self._run_batch([entry])

    def _fail(self, job: Job, error: BaseException) -> None:
        with self._condition:
            if job not in self._jobs:
                return
            self._remove(job)
        if job.future.set_running_or_notify_cancel():
            job.future.set_exception(error)

    def _add_output(self, entry: _Entry, output: Any) -> None:
        job = entry.job
        with self._condition:
            if job not in self._jobs:
                return
            job.outputs[entry.index] = output
            is_complete = len(job.outputs) == len(job.items)
            if is_complete:
                self._jobs.discard(job)
        if job.on_output is not None:
            job.on_output(entry.index, output)
        if is_complete and job.future.set_running_or_notify_cancel():
            job.future.set_result([job.outputs[index] for index in range(len(job.items))])
