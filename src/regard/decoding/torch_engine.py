"""Searches over our own models, in PyTorch.

On a CPU, batches run side by side, each on one core: the products of a step are too small to be
shared out among cores. On a GPU, steps are recorded, for asking takes longer than doing.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import cached_property
from itertools import chain
from typing import Any, Protocol, TypeVar, cast

import torch
from torch import nn

from regard.data.pairs import with_ends
from regard.decoding.config import SearchConfig
from regard.decoding.engine import Found, Hypothesis, Job, batches, fewer_with_beams
from regard.decoding.parallel import parallel_search
from regard.decoding.passes import CudaGraphPasses, EagerPasses
from regard.decoding.search import search
from regard.decoding.steps import CudaGraphRunner, EagerRunner
from regard.decoding.wrappers import Ensemble
from regard.devices import Precision
from regard.errors import ConfigError
from regard.models.base import Model
from regard.models.nonautoregressive import NonAutoregressive
from regard.models.protocol import Autoregressive
from regard.recording import recordable

# Tokens of sources that are worked on at once on a CPU, if nobody says how many sentences: large
# batches have fewer steps, but more than five beams of each sentence would take too much memory.
_TOKENS, _TOKENS_OF_BEAMS = 6144, 5 * 4096
_OUTPUTS = {"cpu": 64, "cuda": 256}  # written all at once, if nobody says how many
M = TypeVar("M")


class Writer(Autoregressive[Any], Protocol):
    """A model that writes one token after another, as far as its positions reach."""

    @property
    def max_length(self) -> int | None:
        """The longest sentence that the positions allow; None: any."""
        ...


class _Engine:
    """What engines in PyTorch share; a precision of "auto" is bfloat16 on a GPU, else float32."""

    max_length: int | None
    _recorded: bool

    def __init__(self, device: torch.device, precision: Precision) -> None:
        self._device = device
        self._half = precision == "bfloat16" or (precision == "auto" and device.type == "cuda")

    def __str__(self) -> str:
        where = "a GPU" if self._device.type == "cuda" else "the CPU"
        return f"PyTorch on {where}, {'bfloat16' if self._half else 'float32'}"

    def _cast(self, model: M) -> M:
        """The model in the precision of the engine."""
        if self._half and isinstance(model, nn.Module):
            return copy.deepcopy(model).bfloat16()
        return model

    def search(
        self, jobs: Iterable[Job], config: SearchConfig, batch_size: int | None
    ) -> Iterator[Found]:
        """`top_beams` hypotheses for each job."""
        every = list(jobs)
        lengths = [len(job.source) + 1 for job in every]  # with EOS
        size, of_tokens = (batch_size, False) if batch_size is not None else self._size(config)
        parts = list(batches(range(len(every)), lengths.__getitem__, size, of_tokens=of_tokens))

        def work(numbers: list[int]) -> list[Found]:
            return [*map(Found, numbers, self._found([every[n] for n in numbers], config))]

        if self._device.type == "cpu" and len(parts) > 1:
            with one_core_each() as pool:
                yield from chain.from_iterable(pool.map(work, parts))
        elif parts:
            with recordable(self._device, self._stream) if self._recorded else nullcontext():
                found = [*map(work, parts)]
            yield from chain.from_iterable(found)

    @cached_property
    def _stream(self) -> torch.cuda.Stream:
        return torch.cuda.Stream(self._device)

    def _size(self, config: SearchConfig) -> tuple[int, bool]:
        """The size of a batch, and whether that is in tokens rather than sentences."""
        raise NotImplementedError

    def _found(self, jobs: list[Job], config: SearchConfig) -> list[list[Hypothesis]]:
        """The hypotheses of each job of a batch."""
        raise NotImplementedError


class TorchEngine(_Engine):
    """One model, or several that write as one."""

    def __init__(
        self, models: Sequence[Writer], device: torch.device, precision: Precision = "auto"
    ) -> None:
        super().__init__(device, precision)
        models = [*map(self._cast, models)]
        self._model: Autoregressive[Any] = Ensemble(models) if len(models) > 1 else models[0]
        self.max_length = max_length(models)
        self._recorded = device.type == "cuda" and self._model.can_be_recorded
        self._runner = CudaGraphRunner() if self._recorded else EagerRunner()

    def _size(self, config: SearchConfig) -> tuple[int, bool]:
        if self._device.type == "cpu":
            return max(1, min(_TOKENS, _TOKENS_OF_BEAMS // config.beam_size)), True
        return fewer_with_beams(256, config), False

    def _found(self, jobs: list[Job], config: SearchConfig) -> list[list[Hypothesis]]:
        wanted = len(jobs)
        if self._recorded:  # empty sentences are added, so that there are few sizes of batches
            jobs = jobs + [Job([], [])] * ((1 << (wanted - 1).bit_length()) - wanted)
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
            runner=None if config.sample else self._runner,  # draws are made on the host
        )
        return found[:wanted]


class ParallelEngine(_Engine):
    """A model that writes all words at once, and perhaps a teacher that reranks its outputs."""

    def __init__(
        self,
        model: Model,
        device: torch.device,
        precision: Precision = "auto",
        teacher: Model | None = None,
    ) -> None:
        super().__init__(device, precision)
        self._model = cast(NonAutoregressive, self._cast(model))
        self._teacher = self._cast(teacher)
        self.max_length = model.max_length
        models = [model] if teacher is None else [model, teacher]
        # A pass over filled rows has to be the same work on tensors for all rows of a shape.
        self._recorded = device.type == "cuda" and all(
            not one.config.autoregressive
            or (one.config.obstacle_to_capture is None and one.pass_can_be_captured)
            for one in models
        )
        limit = max_length(models)
        self._passes = CudaGraphPasses(device, limit) if self._recorded else EagerPasses(device)

    def __str__(self) -> str:
        return f"{super().__str__()}, all words at once"

    def _size(self, config: SearchConfig) -> tuple[int, bool]:
        return max(4, _OUTPUTS[self._device.type] // config.candidates), False

    def _found(self, jobs: list[Job], config: SearchConfig) -> list[list[Hypothesis]]:
        if any(job.begin for job in jobs):
            raise ConfigError(
                "This model writes all words at once, so a translation cannot be told how to "
                "begin. Leave out the prefix."
            )
        source = with_ends([job.source for job in jobs])
        return parallel_search(
            self._model, source, config, teacher=self._teacher, passes=self._passes
        )


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
