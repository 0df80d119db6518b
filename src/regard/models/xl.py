"""Transformer-XL (Dai et al., 2019, arXiv:1901.02860): a language model with segment recurrence.

    h~ = [ stop_gradient(memory) ; h ]
    hidden = Stack(h~)              with relative positions: `attention/relative.py`

Streams of text are processed segment by segment. The memory, the block inputs of previous segments,
is returned in `StreamPredictions.memory` and passed to the next call of `forward`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from regard.attention.multihead import AttentionRecorder
from regard.config import Doc
from regard.data.batch import Batch, StreamBatch
from regard.data.ragged import Ragged
from regard.layers.block import BlockShape
from regard.layers.segment_recurrence import Memory, MemoryStack, memory_mask
from regard.models.language import CausalLanguageModel
from regard.models.memory import MemoryConfig, SegmentRecurrentModel, StreamPredictions
from regard.text.special import SPECIAL


@dataclass(frozen=True)
class XLConfig(MemoryConfig):
    """Settings of a Transformer-XL."""

    task = "language_modeling"
    kind: Annotated[Literal["xl"], Doc("model architecture")] = "xl"
    across_documents: Annotated[
        bool, Doc("attend to previous documents of a stream, as in Transformer-XL")
    ] = True


class XL(SegmentRecurrentModel, CausalLanguageModel):
    """A causal language model with segment recurrence."""

    config: XLConfig
    encoder: MemoryStack

    def new_stack(self, shape: BlockShape, *, causal: bool) -> MemoryStack:
        """A new stack with segment recurrence."""
        return MemoryStack(self.config.num_layers, self.relative_shape(shape), causal=causal)

    def forward(
        self, batch: Batch, recorder: AttentionRecorder | None = None, memory: Memory | None = None
    ) -> StreamPredictions:
        """Hidden states of all tokens of a segment."""
        recorder = self.sampling_recorder(recorder)
        text, lengths = batch.source, batch.source.lengths
        x = self.embedding(text.tokens)
        if memory is None:
            memory = self.empty_memory(len(lengths), x)
        starts = lengths.pad(text.tokens) == self.decoder_start_id  # of documents
        documents = memory.last_document + starts.cumsum(1)  # (B, T)
        mask = memory_mask(lengths, memory, None if self.config.across_documents else documents)
        hidden, inputs = self.encoder.forward_segment(x, lengths, memory, mask, recorder)
        predictions = self.predictions(hidden, batch.target, recorder)
        memory = memory.updated(inputs, lengths, documents)
        return StreamPredictions(**vars(predictions), memory=memory)

    def left_to_right_batch(self, tokens: Sequence[int], before: int | None) -> StreamBatch:
        """The inputs are the previous tokens; EOS is replaced by BOS of the next document."""
        inputs = [SPECIAL.eos if before is None else before, *tokens[:-1]]
        source = [self.decoder_start_id if token == SPECIAL.eos else token for token in inputs]
        return StreamBatch(Ragged.of([source]), Ragged.of([tokens]))

    @property
    def context(self) -> int:
        """The length of a segment and its memory."""
        return self.config.max_positions + self.config.memory_length_for(training=False)
