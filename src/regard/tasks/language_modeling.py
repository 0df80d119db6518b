"""Language modeling: running text, the next token from those before it.

    L = - sum_t log p(x_t | x_<t)

A model with segment recurrence reads streams, and its memory goes from batch to batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, cast

from torch import Tensor, nn

from regard.data.batch import Batch, StreamBatch
from regard.data.content import TEXT
from regard.data.file_options import TextFiles
from regard.data.loader import Dataset
from regard.data.running_text import CausalDataset
from regard.data.store import Store
from regard.data.streams import StreamDataset
from regard.evaluation.options import TextOptions
from regard.layers.recall import Memory
from regard.models.base import Model
from regard.models.memory import MemoryConfig, StreamPredictions
from regard.models.protocol import Predictions
from regard.tasks.base import Task
from regard.tasks.pipelines import Generator
from regard.training.config import RunConfig, TrainingConfig
from regard.training.objective import Objective


class LanguageModeling(Task):
    """The next token of running text."""

    name = "language_modeling"
    content = TEXT
    files = TextFiles
    evaluation = TextOptions
    pipeline: ClassVar[type[Any]] = Generator
    usage = 'regard generate {} "Once upon a time"'

    def problems(self, config: RunConfig) -> Iterator[str]:
        """Two passes over a batch cannot both continue the batch before."""
        yield from super().problems(config)
        if config.training.r_drop and config.model.has_memory:
            yield (
                "training.r_drop reads each batch twice, which segment recurrence does not "
                "support; set training.r_drop=0"
            )

    def dataset(self, store: Store, part: str, config: RunConfig, seed: int) -> Dataset:
        """A part of a store."""
        documents, model = store.text(part).documents, config.model
        assert model.context is not None
        if not model.has_memory:
            return CausalDataset(documents, model.context, model.start_mark, seed)
        tokens = config.data.batch_tokens
        return StreamDataset(documents, model.context, tokens, model.start_mark, seed)

    def new_objective(self, model: Model, config: RunConfig) -> Objective:
        """Cross-entropy; with a memory, if the model has one."""
        if not config.model.has_memory:
            return Objective(config.training)
        return StreamObjective(model, config.training)


class StreamObjective(Objective):
    """Cross-entropy of segments, each read with the memory of the segments before it."""

    def __init__(self, model: Model, config: TrainingConfig) -> None:
        super().__init__(config)
        self._device = model.device
        self._length = cast(MemoryConfig, model.config).memory
        self._memory: Memory | None = None

    def predict(self, model: nn.Module, batch: Batch) -> Predictions:
        """What the model predicts, given the memory where the batch continues the one before."""
        continues = isinstance(batch, StreamBatch) and batch.continues
        memory = self._memory if continues else None
        predictions: StreamPredictions = (
            model(batch) if memory is None else model(batch, memory=memory)
        )
        self._memory = predictions.memory
        return predictions

    def state(self) -> dict[str, Tensor]:
        """The memory of the last batch."""
        return {} if self._memory is None else self._memory.tensors()

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Continue from the memory of a checkpoint."""
        self._memory = Memory.of(dict(tensors), self._length, self._device)
