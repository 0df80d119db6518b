"""What runs the models: ids in, hypotheses out. The translator does not care how."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch

from regard.data.loader import with_ends
from regard.decoding.config import SearchConfig
from regard.decoding.ensemble import Ensemble
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import search
from regard.errors import ConfigError
from regard.models.protocol import Autoregressive
from regard.models.transformer import Transformer

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Job:
    """A sentence to translate, and how its translation must begin; neither has an end mark."""

    source: list[int]
    begin: list[int]


class Engine(Protocol):
    """Something that can search."""

    def search(
        self, jobs: Sequence[Job], config: SearchConfig, batch_size: int
    ) -> list[list[Hypothesis]]:
        """`top_beams` hypotheses for each job, best first."""
        ...


class TorchEngine:
    """Our own searches over our own models, in PyTorch; several models write as one."""

    def __init__(self, models: Sequence[Transformer], device: torch.device) -> None:
        self._model: Autoregressive[Any] = Ensemble(models) if len(models) > 1 else models[0]
        self._device = device
        self._max_length = max_length(models)

    def search(
        self, jobs: Sequence[Job], config: SearchConfig, batch_size: int
    ) -> list[list[Hypothesis]]:
        """`top_beams` hypotheses for each job, best first."""

        def of(batch: list[Job]) -> list[list[Hypothesis]]:
            source = with_ends([job.source for job in batch]).to(self._device)
            begins = [job.begin for job in batch]
            return search(self._model, source, config, prefixes=begins, max_length=self._max_length)

        return by_length(jobs, lambda job: len(job.source), batch_size, of)


def max_length(models: Sequence[Transformer]) -> int | None:
    """The longest sentence that the positions of all models allow; None: any."""
    limits = [model.max_length for model in models if model.max_length is not None]
    return min(limits, default=None)


def by_length(
    items: Sequence[T],
    length: Callable[[T], int],
    batch_size: int,
    of: Callable[[list[T]], list[R]],
) -> list[R]:
    """Apply `of` to batches of like length; the results come back in the order of the items."""
    if batch_size < 1:
        raise ConfigError(f"batch_size is {batch_size}, and must be at least 1.")
    order = sorted(range(len(items)), key=lambda i: length(items[i]), reverse=True)
    results: dict[int, R] = {}
    for begin in range(0, len(order), batch_size):
        chunk = order[begin : begin + batch_size]
        results.update(zip(chunk, of([items[i] for i in chunk]), strict=True))
    return [results[i] for i in range(len(items))]
