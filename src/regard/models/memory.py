"""What models that remember earlier segments have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from torch import Tensor

from regard.bounds import LENGTH, Ge
from regard.config import Doc
from regard.data.batch import StreamBatch
from regard.layers.block import BlockShape
from regard.layers.recall import Memory
from regard.models.language import LanguageConfig, LanguageModel
from regard.models.protocol import Predictions


@dataclass(frozen=True)
class MemoryConfig(LanguageConfig):
    """The shape of a stack with segment recurrence."""

    has_memory = True

    positions: Annotated[Literal["relative"], Doc("distances, which a memory does not change")] = (
        "relative"
    )
    max_positions: Annotated[
        int, Doc("tokens of a segment: so many are read at once"), Ge(1), LENGTH
    ] = 128
    memory: Annotated[int, Doc("tokens before a segment that are remembered"), Ge(0), LENGTH] = 128
    evaluation_memory: Annotated[
        int | None, Doc("the same once it is trained; unset: as `memory`"), Ge(0), LENGTH
    ] = None

    max_distance: Annotated[
        int | None,
        Doc("whatever is farther away counts as this far; unset: as it is"),
        Ge(1),
        LENGTH,
    ] = None

    def problems(self) -> Iterator[str]:
        """What looks beyond single tokens would have to remember, too."""
        yield from super().problems()
        if self.feedforward == "convolution":
            yield (
                "feedforward is convolution, which looks at neighbours, and a segment's first "
                "tokens have theirs in the memory; set feedforward to linear or gated"
            )
        if self.norm == "batch":
            yield "norm is batch, which would count what is remembered again; set norm=layer"

    @property
    def obstacle_to_capture(self) -> str | None:
        """A captured update has no input but its batch."""
        return "the memory of one update is an input of the next"

    @property
    def obstacle_to_sharding(self) -> str | None:
        """A checkpoint holds the memory of one process."""
        return super().obstacle_to_sharding or (
            f"A model of kind {self.kind!r} continues the batch before, and a checkpoint has the "
            "memory of one process. Train with one process."
        )

    def room(self, *, training: bool) -> int:
        """Tokens that are remembered."""
        if training or self.evaluation_memory is None:
            return self.memory
        return self.evaluation_memory


@dataclass(frozen=True, kw_only=True)
class StreamPredictions(Predictions):
    """Predictions of a segment, and the memory that the next segment is read with."""

    memory: Memory | None


class RememberingModel(LanguageModel):
    """A stack whose segments continue those before them."""

    config: MemoryConfig

    def empty_memory(self, streams: int, like: Tensor, room: int | None = None) -> Memory:
        """That of streams of which nothing was read; `like` is of the kind of the embeddings."""
        if room is None:
            room = self.config.room(training=self.training)
        return Memory.empty(streams, self.config.layers, like, room)

    @abstractmethod
    def in_order(self, tokens: Sequence[int], before: int | None) -> StreamBatch:
        """A segment as a batch that asks for each token, given all before it.

        `before`: the token before the segment, if there is one
        """

    def with_distances(self, shape: BlockShape, *, bias: bool = True) -> BlockShape:
        """The shape of blocks, told what distances count, and whether attention has biases."""
        farthest = self.config.max_distance
        return replace(shape, attention=replace(shape.attention, max_distance=farthest, bias=bias))
