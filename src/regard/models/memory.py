"""Base class of language models with segment recurrence."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from torch import Tensor

from regard.bounds import LENGTH, Ge
from regard.config import Doc, Formerly
from regard.data.batch import StreamBatch
from regard.layers.block import BlockShape
from regard.layers.segment_recurrence import Memory
from regard.models.language import LanguageConfig, LanguageModel
from regard.models.protocol import Predictions


@dataclass(frozen=True)
class MemoryConfig(LanguageConfig):
    """Settings of a stack with segment recurrence."""

    has_memory = True

    positional_encoding: Annotated[
        Literal["relative"],
        Doc("positional encoding; a memory requires relative positions"),
        Formerly("positions"),
    ] = "relative"
    max_positions: Annotated[int, Doc("segment length in tokens"), Ge(1), LENGTH] = 128
    memory_length: Annotated[
        int, Doc("memory length in tokens, in training"), Ge(0), LENGTH, Formerly("memory")
    ] = 128
    evaluation_memory_length: Annotated[
        int | None,
        Doc("memory length in evaluation; default: as memory_length"),
        Ge(0),
        LENGTH,
        Formerly("evaluation_memory"),
    ] = None

    max_distance: Annotated[
        int | None,
        Doc("clip relative positions to this distance; default: no clipping"),
        Ge(1),
        LENGTH,
    ] = None

    def problems(self) -> Iterator[str]:
        """Layers that segment recurrence does not support."""
        yield from super().problems()
        if self.ffn_type == "convolution":
            yield (
                "ffn_type=convolution is not supported with segment recurrence; set ffn_type to "
                "linear or gated"
            )
        if self.norm == "batch":
            yield "norm=batch is not supported with segment recurrence; set norm=layer"

    @property
    def cuda_graphs_unsupported_reason(self) -> str | None:
        """The only input of a captured update is its batch."""
        return "the memory of one update is an input of the next"

    @property
    def distributed_unsupported_reason(self) -> str | None:
        """A checkpoint stores the memory of one process."""
        return super().distributed_unsupported_reason or (
            f"Model kind {self.kind!r} is not supported with several processes: a checkpoint "
            "stores the memory of one process. Train with one process."
        )

    def memory_length_for(self, *, training: bool) -> int:
        """The memory length in training or in evaluation."""
        if training or self.evaluation_memory_length is None:
            return self.memory_length
        return self.evaluation_memory_length


@dataclass(frozen=True, kw_only=True)
class StreamPredictions(Predictions):
    """Predictions of a segment, and the memory for the next segment."""

    memory: Memory | None


class SegmentRecurrentModel(LanguageModel):
    """A language model with segment recurrence."""

    config: MemoryConfig

    def empty_memory(self, streams: int, like: Tensor, max_length: int | None = None) -> Memory:
        """The memory before the first segment; `like`: dtype and device of the embeddings."""
        if max_length is None:
            max_length = self.config.memory_length_for(training=self.training)
        return Memory.empty(streams, self.config.num_layers, like, max_length)

    @abstractmethod
    def left_to_right_batch(self, tokens: Sequence[int], before: int | None) -> StreamBatch:
        """A batch that predicts each token of a segment from all previous tokens.

        `before`: the token before the segment, if there is one
        """

    def relative_shape(self, shape: BlockShape, *, bias: bool = True) -> BlockShape:
        """The block shape with clipped relative positions; `bias`: of attention projections."""
        distance = self.config.max_distance
        return replace(shape, attention=replace(shape.attention, max_distance=distance, bias=bias))
