"""Transformer-XL (Dai et al., 2019, arXiv:1901.02860): a language model with a memory.

    h~ = [ stop_gradient(memory) ; h ]
    hidden = Stack(h~)              distances count, places do not: `attention/relative.py`

Streams of text are read segment by segment. What each block read of earlier segments stands before
the next one: `StreamPredictions.memory`, which the next call of `forward` is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from regard.attention.multihead import AttentionRecord
from regard.config import Doc
from regard.data.batch import Batch, StreamBatch
from regard.data.ragged import Ragged
from regard.layers.block import BlockShape
from regard.layers.recall import Memory, RecallStack, sight
from regard.models.language import WritingModel
from regard.models.memory import MemoryConfig, RememberingModel, StreamPredictions
from regard.text.special import SPECIAL


@dataclass(frozen=True)
class XLConfig(MemoryConfig):
    """The shape of a Transformer-XL."""

    task = "language_modeling"
    kind: Annotated[Literal["xl"], Doc("which model")] = "xl"
    across_documents: Annotated[
        bool, Doc("see earlier documents of the stream, as the paper does; false: only one's own")
    ] = True


class XL(RememberingModel, WritingModel):
    """A stack that sees what came before and what it remembers, and words after it."""

    config: XLConfig
    encoder: RecallStack

    def new_stack(self, shape: BlockShape, *, causal: bool) -> RecallStack:
        """Blocks that look into a memory."""
        return RecallStack(self.config.layers, self.with_distances(shape), causal=causal)

    def forward(
        self, batch: Batch, record: AttentionRecord | None = None, memory: Memory | None = None
    ) -> StreamPredictions:
        """Hidden states for every token of a segment, each knowing what came before."""
        record = self.recorder(record)
        text, lengths = batch.source, batch.source.lengths
        x = self.embedding(text.tokens)
        if memory is None:
            memory = self.empty_memory(len(lengths), x)
        begins = lengths.pad(text.tokens) == self.start_mark  # documents begin with it
        documents = memory.last_document + begins.cumsum(1)  # (B, T)
        mask = sight(lengths, memory, None if self.config.across_documents else documents)
        hidden, read = self.encoder.read(x, lengths, memory, mask, record)
        found = self.predictions(hidden, batch.target, record)
        return StreamPredictions(**vars(found), memory=memory.after(read, lengths, documents))

    def in_order(self, tokens: Sequence[int], before: int | None) -> StreamBatch:
        """What is read at each place is the token before it; a document begins with its mark."""
        read = [SPECIAL.end if before is None else before, *tokens[:-1]]
        source = [self.start_mark if token == SPECIAL.end else token for token in read]
        return StreamBatch(Ragged.of([source]), Ragged.of([tokens]))

    @property
    def context(self) -> int:
        """A segment, and what is remembered before it."""
        return self.config.max_positions + self.config.room(training=False)
