"""Our own searches over our own models, in PyTorch.

On a CPU, batches run side by side, each on one core: the products of a step are too small to be
shared out among cores. On a GPU, steps are recorded, for asking takes longer than doing.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple, Protocol

import torch
from torch import nn

from regard.data.pairs import with_ends
from regard.decoding.config import SearchConfig
from regard.decoding.engine import Found, Job, batches, batches_of_tokens
from regard.decoding.ensemble import Ensemble
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import search
from regard.decoding.size import fewer_with_beams
from regard.decoding.steps import Pace, Plain, Recorded
from regard.devices import Precision
from regard.models.base import Model
from regard.models.protocol import Autoregressive
from regard.recording import recordable

# Tokens of sources that are worked on at once on a CPU, if nobody says how many sentences: large
# batches have fewer steps, but more than five beams of each sentence would take too much memory.
_TOKENS, _TOKENS_OF_BEAMS = 6144, 5 * 4096


class Writer(Autoregressive[Any], Protocol):
    """A model that writes one token after another, as far as its positions reach."""

    @property
    def max_length(self) -> int | None:
        """The longest sentence that the positions allow; None: any."""
        ...


Work = Callable[[list[Job]], list[list[Hypothesis]]]


class Task(NamedTuple):
    """A job and its number."""

    number: int
    job: Job


class TorchEngine:
    """One model, or several that write as one.

    A precision of "auto" is bfloat16 on a GPU and float32 on a CPU.
    """

    def __init__(
        self, models: Sequence[Writer], device: torch.device, precision: Precision = "auto"
    ) -> None:
        self._half = is_half_here(device, precision)
        if self._half:
            models = [
                copy.deepcopy(model).bfloat16() if isinstance(model, nn.Module) else model
                for model in models
            ]
        self._model: Autoregressive[Any] = Ensemble(models) if len(models) > 1 else models[0]
        self._device = device
        self.max_length = max_length(models)
        self._recorded = device.type == "cuda" and self._model.can_be_recorded
        self._pace: Pace = Recorded() if self._recorded else Plain()
        self._stream = torch.cuda.Stream(device) if self._recorded else None

    def __str__(self) -> str:
        where = "a GPU" if self._device.type == "cuda" else "the CPU"
        return f"PyTorch on {where}, {'bfloat16' if self._half else 'float32'}"

    def search(
        self, jobs: Iterable[Job], config: SearchConfig, batch_size: int | None
    ) -> Iterator[Found]:
        """`top_beams` hypotheses for each job."""
        parts = list(self._parts(numbered(jobs), config, batch_size))
        yield from in_parts(
            parts, lambda part: self._found(part, config), self._device, self._stream
        )

    def _parts(
        self, tasks: Sequence[Task], config: SearchConfig, batch_size: int | None
    ) -> Iterator[list[Task]]:
        def length(task: Task) -> int:
            return len(task.job.source) + 1  # with the end mark

        if batch_size is None and self._device.type == "cpu":
            tokens = max(1, min(_TOKENS, _TOKENS_OF_BEAMS // config.beam_size))
            return batches_of_tokens(tasks, length, tokens)
        size = fewer_with_beams(256, config) if batch_size is None else batch_size
        return batches(tasks, length, size)

    def _found(self, jobs: list[Job], config: SearchConfig) -> list[list[Hypothesis]]:
        wanted = len(jobs)
        if self._recorded:
            jobs = _filled(jobs)
        source = with_ends([job.source for job in jobs])
        if self._recorded:
            longest = -(-source.lengths.longest // 16) * 16
            source = source.up_to(min(longest, self.max_length or longest))
        found = search(
            self._model,
            source.to(self._device),
            config,
            prefixes=[job.begin for job in jobs],
            max_length=self.max_length,
            pace=self._pace,
        )
        return found[:wanted]


def is_half_here(device: torch.device, precision: Precision) -> bool:
    """Whether translations are computed in bfloat16; "auto": on a GPU."""
    return precision == "bfloat16" or (precision == "auto" and device.type == "cuda")


def numbered(jobs: Iterable[Job]) -> list[Task]:
    """Jobs as they come."""
    return [Task(number, job) for number, job in enumerate(jobs)]


def in_parts(
    parts: Sequence[list[Task]],
    work: Work,
    device: torch.device,
    stream: torch.cuda.Stream | None = None,
) -> Iterator[Found]:
    """What the work finds for each part; with a stream, it can be recorded there."""
    own = [[task.job for task in part] for part in parts]
    if device.type == "cpu" and len(parts) > 1:
        with one_core_each() as pool:
            yield from _each(parts, pool.map(work, own))
    elif parts:
        with recordable(device, stream) if stream else nullcontext():
            found = [*map(work, own)]
        yield from _each(parts, found)


def max_length(models: Sequence[Writer | Model]) -> int | None:
    """The longest sentence that the positions of all models allow; None: any."""
    limits = [model.max_length for model in models if model.max_length is not None]
    return min(limits, default=None)


@contextmanager
def one_core_each() -> Iterator[Executor]:
    """As many workers as PyTorch has threads; meanwhile each has one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads) as pool:
            yield pool
    finally:
        torch.set_num_threads(threads)


def _filled(jobs: list[Job]) -> list[Job]:
    """With empty sentences, so that there are few sizes of batches."""
    return jobs + [Job([], [])] * ((1 << (len(jobs) - 1).bit_length()) - len(jobs))


def _each(parts: Iterable[list[Task]], found: Iterable[list[list[Hypothesis]]]) -> Iterator[Found]:
    for part, results in zip(parts, found, strict=True):
        for task, hypotheses in zip(part, results, strict=True):
            yield Found(task.number, hypotheses)
