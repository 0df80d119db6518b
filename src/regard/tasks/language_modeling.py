"""Language modeling: plain text, the next token from the previous ones.

    L = - sum_t log p(x_t | x_<t)

A model with segment recurrence reads streams; its memory is passed from batch to batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, cast

from torch import Tensor, nn

from regard.data.batch import Batch, StreamBatch
from regard.data.content import TEXT
from regard.data.file_options import TextFiles
from regard.data.loader import Dataset
from regard.data.plain_text import CausalDataset
from regard.data.store import Store
from regard.data.streams import StreamDataset
from regard.evaluation.options import TextOptions
from regard.layers.segment_recurrence import Memory
from regard.models.base import Model
from regard.models.memory import MemoryConfig, StreamPredictions
from regard.models.protocol import Predictions
from regard.tasks.base import Task
from regard.tasks.pipelines import Generator
from regard.training.config import RunConfig, TrainingConfig
from regard.training.objective import Objective


class LanguageModeling(Task):
    """Next-token prediction on plain text."""

    name = "language_modeling"
    content = TEXT
    files = TextFiles
    evaluation = TextOptions
    pipeline: ClassVar[type[Any]] = Generator
    usage = 'regard generate {} "Once upon a time"'

    def problems(self, config: RunConfig) -> Iterator[str]:
        """R-Drop is not supported with segment recurrence."""
        yield from super().problems(config)
        if config.training.r_drop and config.model.has_memory:
            yield (
                "training.r_drop reads each batch twice, which segment recurrence does not "
                "support; set training.r_drop=0"
            )

    def dataset(self, store: Store, part: str, config: RunConfig, seed: int) -> Dataset:
        """A part of a store, as segments or streams of text."""
        documents, model = store.text(part).documents, config.model
        assert model.context is not None
        if not model.has_memory:
            return CausalDataset(documents, model.context, model.decoder_start_id, seed)
        tokens = config.data.batch_tokens
        return StreamDataset(documents, model.context, tokens, model.decoder_start_id, seed)

    def new_objective(self, model: Model, config: RunConfig) -> Objective:
        """Cross-entropy; with segment recurrence, if the model has a memory."""
        if not config.model.has_memory:
            return Objective(config.training)
        return StreamObjective(model, config.training)


class StreamObjective(Objective):
    """Cross-entropy of segments, each with the memory of the previous segments."""

    def __init__(self, model: Model, config: TrainingConfig) -> None:
        super().__init__(config)
        self._device = model.device
        self._length = cast(MemoryConfig, model.config).memory_length
        self._memory: Memory | None = None

    def predict(self, model: nn.Module, batch: Batch) -> Predictions:
        """The predictions, with the memory if the batch continues the previous one."""
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
        """Load the memory of a checkpoint."""
        self._memory = Memory.of(dict(tensors), self._length, self._device)
