"""Transformer-XL (Dai et al., 2019, arXiv:1901.02860): a language model with a memory.

    h~ = [ stop_gradient(memory) ; h ]
    hidden = Stack(h~)              distances count, places do not: `attention/relative.py`

Streams of text are read segment by segment. What each block read of earlier segments stands before
the next one: `Predictions.memory`, which whoever reads on hands back to `forward`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from torch import Tensor

from regard.attention.multihead import AttentionRecord
from regard.config import Doc, Ge
from regard.data.ragged import Batch
from regard.data.text_rows import TextTask
from regard.layers.block import BlockShape
from regard.layers.init import initialize
from regard.layers.recall import Memory, RecallStack, sight
from regard.models.language import LanguageConfig, WritingModel
from regard.models.protocol import Predictions, Vocabulary
from regard.text.special import SPECIAL


@dataclass(frozen=True)
class MemoryConfig(LanguageConfig):
    """The shape of a stack that remembers earlier segments."""

    positions: Annotated[Literal["relative"], Doc("distances, which a memory does not change")] = (
        "relative"
    )
    max_positions: Annotated[int, Doc("tokens of a segment: so many are read at once"), Ge(1)] = 128
    memory: Annotated[int, Doc("tokens before a segment that are remembered"), Ge(0)] = 128
    evaluation_memory: Annotated[
        int | None, Doc("the same once it is trained; unset: as `memory`"), Ge(0)
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
    def obstacle_to_sharing(self) -> str | None:
        """A checkpoint holds the memory of one process."""
        return super().obstacle_to_sharing or (
            f"A {self.kind} model remembers the batch before, and a checkpoint has the memory of "
            "one process. Train with one process."
        )

    def room(self, *, training: bool) -> int:
        """Tokens that are remembered."""
        if training or self.evaluation_memory is None:
            return self.memory
        return self.evaluation_memory


@dataclass(frozen=True)
class XLConfig(MemoryConfig):
    """The shape of a Transformer-XL."""

    kind: Annotated[Literal["xl"], Doc("which model")] = "xl"
    across_documents: Annotated[
        bool, Doc("see earlier documents of the stream, as the paper does; false: only one's own")
    ] = True

    @property
    def task(self) -> TextTask:
        """To write what comes next, segment after segment."""
        start = int(getattr(SPECIAL, self.start_token))
        return TextTask("causal", self.max_positions, start, streams=True)


class XL(WritingModel):
    """A stack that sees what came before and what it remembers, and words after it."""

    config: XLConfig
    encoder: RecallStack

    def __init__(self, config: XLConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary, causal=True)
        self.projection = self.new_projection(self.embedding.table)
        initialize(self, config.init)

    def new_stack(self, shape: BlockShape, *, causal: bool) -> RecallStack:
        """Blocks that look into a memory."""
        return RecallStack(self.config.layers, shape)

    def forward(
        self, batch: Batch, record: AttentionRecord | None = None, memory: Memory | None = None
    ) -> Predictions:
        """Hidden states for every token of a segment, each knowing what came before."""
        record = self.recorder(record)
        text, targets = batch.source, batch.target
        lengths = text.lengths
        x = self.embedding(text.tokens)
        if memory is None:
            memory = self.empty_memory(len(lengths), x)
        documents = self._documents(lengths.pad(text.tokens), memory)
        mask = sight(lengths, memory, None if self.config.across_documents else documents)
        hidden, read = self.encoder.read(x, lengths, memory, mask, record)
        remembered = memory.after(read, lengths, documents)
        return Predictions(
            hidden,
            targets.tokens,
            self.projection,
            targets.lengths,
            self.choices(record),
            memory=remembered,
        )

    def empty_memory(self, streams: int, like: Tensor, room: int | None = None) -> Memory:
        """That of streams of which nothing was read; `like` is of the kind of the embeddings."""
        if room is None:
            room = self.config.room(training=self.training)
        return Memory.empty(streams, self.config.layers, like, room)

    @property
    def context(self) -> int:
        """A segment, and what is remembered before it."""
        return self.config.max_positions + self.config.room(training=False)

    def _documents(self, tokens: Tensor, memory: Memory) -> Tensor:
        """The document of each token: they begin with start marks. (B, T)"""
        return memory.last_document + (tokens == self.start_mark).cumsum(1)
