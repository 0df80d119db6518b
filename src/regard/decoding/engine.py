"""What runs the models: ids in, hypotheses out. The translator does not care how."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
from torch import nn

from regard.data.loader import with_ends
from regard.decoding.config import SearchConfig
from regard.decoding.ensemble import Ensemble
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import search
from regard.decoding.steps import Pace, Plain, Recorded
from regard.devices import Precision
from regard.errors import ConfigError
from regard.models.protocol import Autoregressive
from regard.recording import recordable

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


class Writer(Autoregressive[Any], Protocol):
    """A model that writes one token after another, as far as its positions reach."""

    @property
    def max_length(self) -> int | None:
        """The longest sentence that the positions allow; None: any."""
        ...


class TorchEngine:
    """Our own searches in PyTorch, whatever runs the models; several models write as one.

    On a GPU, models compute in bfloat16 unless told otherwise, and steps are recorded: what Python
    asks for takes longer than what the GPU does.
    """

    def __init__(
        self, models: Sequence[Writer], device: torch.device, precision: Precision = "auto"
    ) -> None:
        if precision == "bfloat16" or (precision == "auto" and device.type == "cuda"):
            models = [
                copy.deepcopy(model).bfloat16() if isinstance(model, nn.Module) else model
                for model in models
            ]
        self._model: Autoregressive[Any] = Ensemble(models) if len(models) > 1 else models[0]
        self._device = device
        self._max_length = max_length(models)
        self._recorded = device.type == "cuda" and self._model.can_be_recorded
        self._pace: Pace = Recorded() if self._recorded else Plain()
        self._stream = torch.cuda.Stream(device) if self._recorded else None

    def search(
        self, jobs: Sequence[Job], config: SearchConfig, batch_size: int
    ) -> list[list[Hypothesis]]:
        """`top_beams` hypotheses for each job, best first."""
        with recordable(self._device, self._stream) if self._stream else nullcontext():
            return by_length(
                jobs, lambda job: len(job.source), batch_size, lambda batch: self._of(batch, config)
            )

    def _of(self, batch: list[Job], config: SearchConfig) -> list[list[Hypothesis]]:
        filled = self._filled(batch) if self._recorded else batch
        source = with_ends([job.source for job in filled])
        if self._recorded:
            longest = -(-source.lengths.longest // 16) * 16
            source = source.up_to(min(longest, self._max_length or longest))
        found = search(
            self._model,
            source.to(self._device),
            config,
            prefixes=[job.begin for job in filled],
            max_length=self._max_length,
            pace=self._pace,
        )
        return found[: len(batch)]

    def _filled(self, batch: list[Job]) -> list[Job]:
        """With empty sentences, so that there are few sizes of batches."""
        return batch + [Job([], [])] * ((1 << (len(batch) - 1).bit_length()) - len(batch))


def max_length(models: Sequence[Writer]) -> int | None:
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
