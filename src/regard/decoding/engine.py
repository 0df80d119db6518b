"""What runs the models: ids in, hypotheses out. The translator does not care how."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import torch

from regard.data.loader import with_ends
from regard.decoding.config import SearchConfig
from regard.decoding.ensemble import Ensemble
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import search
from regard.errors import ConfigError
from regard.models.protocol import Autoregressive
from regard.models.transformer import Transformer

SENTENCES = 64  # that are worked on at once, if nobody says how many
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Job:
    """A sentence to translate, and how its translation must begin; neither has an end mark."""

    source: list[int]
    begin: list[int]


class Found(NamedTuple):
    """What was found for a job, best first; jobs are counted as they come."""

    job: int
    hypotheses: list[Hypothesis]


class Engine(Protocol):
    """Something that can search."""

    max_length: int | None  # the longest sentence that it takes or writes; None: any

    def search(
        self, jobs: Iterable[Job], config: SearchConfig, batch_size: int | None
    ) -> Iterator[Found]:
        """`top_beams` hypotheses for each job, in any order; no batch size: the engine's own.

        Long jobs should come first. An engine may take jobs while it works on those before.
        """
        ...


class TorchEngine:
    """Our own searches over our own models, in PyTorch; several models write as one."""

    def __init__(self, models: Sequence[Transformer], device: torch.device) -> None:
        self._model: Autoregressive[Any] = Ensemble(models) if len(models) > 1 else models[0]
        self._device = device
        self.max_length = max_length(models)

    def __str__(self) -> str:
        return f"PyTorch on {'a GPU' if self._device.type == 'cuda' else 'the CPU'}"

    def search(
        self, jobs: Iterable[Job], config: SearchConfig, batch_size: int | None
    ) -> Iterator[Found]:
        """`top_beams` hypotheses for each job, in their order."""

        def of(batch: list[Job]) -> list[list[Hypothesis]]:
            source = with_ends([job.source for job in batch]).to(self._device)
            begins = [job.begin for job in batch]
            return search(self._model, source, config, prefixes=begins, max_length=self.max_length)

        found = by_length(list(jobs), lambda job: len(job.source), batch_size, of)
        return (Found(number, hypotheses) for number, hypotheses in enumerate(found))


def max_length(models: Sequence[Transformer]) -> int | None:
    """The longest sentence that the positions of all models allow; None: any."""
    limits = [model.max_length for model in models if model.max_length is not None]
    return min(limits, default=None)


def by_length(
    items: Sequence[T],
    length: Callable[[T], int],
    batch_size: int | None,
    of: Callable[[list[T]], list[R]],
) -> list[R]:
    """Apply `of` to batches of like length; the results come back in the order of the items."""
    results: dict[int, R] = {}
    for numbers in batches(range(len(items)), lambda i: length(items[i]), batch_size):
        results.update(zip(numbers, of([items[i] for i in numbers]), strict=True))
    return [results[i] for i in range(len(items))]


def batches(
    items: Sequence[T], length: Callable[[T], int], batch_size: int | None
) -> Iterator[list[T]]:
    """Items of like length together, the longest first."""
    size = SENTENCES if batch_size is None else batch_size
    if size < 1:
        raise ConfigError(f"batch_size is {size}, and must be at least 1.")
    ordered = sorted(items, key=length, reverse=True)
    for begin in range(0, len(ordered), size):
        yield ordered[begin : begin + size]
