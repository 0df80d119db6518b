"""The engine of models that write all words at once, in PyTorch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

import torch

from regard.data.pairs import with_ends
from regard.decoding.config import SearchConfig
from regard.decoding.engine import Found, Job, batches
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.parallel import parallel_search, refuse_what_needs_steps
from regard.decoding.passes import Passes, PlainPasses, RecordedPasses
from regard.decoding.torch_engine import in_parts, is_half_here, max_length, numbered
from regard.devices import Precision
from regard.errors import ConfigError
from regard.models.base import Model
from regard.models.nonautoregressive import NonAutoregressive

_OUTPUTS = {"cpu": 64, "cuda": 256}  # that are worked on at once, if nobody says how many


def _can_be_recorded(model: Model) -> bool:
    """Whether a pass over filled rows is the same work on tensors for all rows of a shape."""
    if not model.config.autoregressive:
        return True
    return model.config.obstacle_to_capture is None and model.pass_can_be_captured


class ParallelEngine:
    """One model, and perhaps a teacher that chooses among its outputs.

    A precision of "auto" is bfloat16 on a GPU and float32 on a CPU.
    """

    def __init__(
        self,
        model: Model,
        device: torch.device,
        precision: Precision = "auto",
        teacher: Model | None = None,
    ) -> None:
        self._half = is_half_here(device, precision)
        model = model.copied().bfloat16() if self._half else model
        self._model = cast(NonAutoregressive, model)
        self._teacher = teacher
        if teacher is not None and self._half:
            self._teacher = teacher.copied().bfloat16()
        self._device = device
        self.max_length = model.max_length
        everybody = [model] if teacher is None else [model, teacher]
        recorded = device.type == "cuda" and all(map(_can_be_recorded, everybody))
        limit = max_length(everybody)
        self._passes: Passes = RecordedPasses(device, limit) if recorded else PlainPasses(device)
        self._stream = torch.cuda.Stream(device) if recorded else None

    def __str__(self) -> str:
        where = "a GPU" if self._device.type == "cuda" else "the CPU"
        return f"PyTorch on {where}, {'bfloat16' if self._half else 'float32'}, all words at once"

    def search(
        self, jobs: Iterable[Job], config: SearchConfig, batch_size: int | None
    ) -> Iterator[Found]:
        """`top_beams` hypotheses for each job."""
        refuse_what_needs_steps(self._model, config, self._teacher)
        size = max(4, _OUTPUTS[self._device.type] // config.candidates)
        size = size if batch_size is None else batch_size
        parts = list(batches(numbered(jobs), lambda task: len(task.job.source), size))
        yield from in_parts(
            parts, lambda part: self._found(part, config), self._device, self._stream
        )

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
