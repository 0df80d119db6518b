"""Permutation language model: XLNet (Yang et al., 2019, arXiv:1906.08237).

    z is a sampled permutation of the positions; the last 1/K of it are predicted:

    p(x_{z_t} | x_{z_<t}) = softmax( g_{z_t} E_o^T + b )      g encodes the position z_t only

Each position has a content stream h and a query stream g (`layers/two_streams.py`). Attention has
relative positions and relative segment encodings, and there is segment recurrence. The default
settings are XLNet's, except for `segment_documents`, which is false there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from regard.attention.multihead import AttentionRecorder
from regard.attention.positions import Layout
from regard.bounds import Ge, Le
from regard.config import Doc, Formerly
from regard.data.batch import Batch, PermutedBatch
from regard.data.ragged import Ragged
from regard.layers.block import BlockShape
from regard.layers.feedforward import Activation
from regard.layers.init import initialize
from regard.layers.segment_recurrence import Memory
from regard.layers.two_streams import StreamMasks, TwoStreamStack
from regard.models.language import NormEpsilon
from regard.models.memory import MemoryConfig, SegmentRecurrentModel, StreamPredictions
from regard.models.protocol import Vocabulary
from regard.text.special import SPECIAL


@dataclass(frozen=True)
class PermutedConfig(MemoryConfig):
    """Settings of a permutation language model."""

    task = "permutation_language_modeling"
    autoregressive = False
    embeds_text = True
    has_attention_maps = False
    kind: Annotated[Literal["permuted"], Doc("model architecture")] = "permuted"
    partial_prediction_k: Annotated[
        int,
        Doc("partial prediction: predict the last 1/K of each permutation"),
        Ge(1),
        Le(1000),
        Formerly("one_in"),
    ] = 6
    segment_documents: Annotated[
        bool, Doc("treat the documents of a stream as segments in relative segment encoding")
    ] = True
    scale_embedding: Annotated[bool, Doc("multiply embeddings by sqrt(d_model)")] = False
    output_bias: Annotated[bool, Doc("bias in the output projection")] = True
    activation: Annotated[Activation, Doc("activation of the feed-forward network")] = "gelu"
    norm_eps: Annotated[NormEpsilon, Formerly("norm_epsilon")] = 1e-12
    sinusoid_layout: Annotated[
        Layout, Doc("order of sinusoids: sines and cosines interleaved, or all sines first (XLNet)")
    ] = "halves"

    def problems(self) -> Iterator[str]:
        """REINFORCE is not implemented for two streams."""
        yield from super().problems()
        if self.attention.estimator == "reinforce":
            yield (
                "attention.estimator=reinforce is not supported; "
                "set attention.estimator=straight_through"
            )


class Permuted(SegmentRecurrentModel):
    """A permutation language model with two-stream attention."""

    config: PermutedConfig
    encoder: TwoStreamStack

    def __init__(self, config: PermutedConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary, causal=False)
        self.question = nn.Parameter(torch.empty(config.d_model))  # initial query stream
        self.projection = self.new_projection(self.embedding.table)
        initialize(self, config.init)
        nn.init.normal_(self.question, std=config.d_model**-0.5)

    def new_stack(self, shape: BlockShape, *, causal: bool) -> TwoStreamStack:
        """A new two-stream stack; its attention projections have no biases."""
        return TwoStreamStack(self.config.num_layers, self.relative_shape(shape, bias=False))

    @property
    def blocks(self) -> list[nn.Module]:
        """No blocks are compiled."""
        return []

    def forward(
        self,
        batch: Batch,
        recorder: AttentionRecorder | None = None,
        memory: Memory | None = None,
    ) -> StreamPredictions:
        """Hidden states of all predicted tokens; without a permutation, of all tokens.

        Tokens that are not predicted are visible to all; without a permutation, all tokens are.
        """
        assert isinstance(batch, PermutedBatch)
        text, targets = batch.source, batch.target.tokens
        if batch.ranks is None:
            hidden, _, memory = self.streams(batch, targets.new_zeros(0), memory)
            return StreamPredictions(hidden, targets, self.projection, text.lengths, memory=memory)
        positions = batch.target_positions
        _, query, memory = self.streams(batch, positions, memory)
        return StreamPredictions(query, targets[positions], self.projection, memory=memory)

    def with_special_tokens(self, ids: Sequence[int]) -> list[int]:
        """The ids of a text with EOS."""
        return [*ids, SPECIAL.eos]

    def hidden_states(
        self,
        text: Ragged,
        segments: Tensor | None = None,
        *,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        """The hidden states of all tokens, with bidirectional attention. (N, D)"""
        no_targets = text.tokens.new_zeros(0)
        return self.streams(PermutedBatch(text, text, segments=segments), no_targets)[0]

    def streams(
        self, batch: PermutedBatch, targets: Tensor, memory: Memory | None = None
    ) -> tuple[Tensor, Tensor, Memory | None]:
        """The content stream (N, D), the query stream of targets (P,), (P, D), and the memory."""
        lengths = batch.source.lengths
        x = self.embedding(batch.source.tokens)
        if memory is None:
            memory = self.empty_memory(len(lengths), x)
        segments = self._segments(batch, memory)
        masks = StreamMasks.of(lengths, memory, batch.ranks, segments, targets)
        query = self.embedding.dropout(self.question.expand(len(targets), -1))
        hidden, query, inputs = self.encoder.forward_streams(x, query, lengths, memory, masks)
        if batch.segments is not None:  # in the memory, all tokens belong to segment 0
            segments = torch.zeros_like(segments)
        return hidden, query, memory.updated(inputs, lengths, segments)

    def left_to_right_batch(self, tokens: Sequence[int], before: int | None) -> PermutedBatch:
        """A batch that predicts all tokens from left to right."""
        text = Ragged.of([tokens])
        return PermutedBatch(text, text, ranks=torch.arange(1, len(tokens) + 1))

    def _segments(self, batch: PermutedBatch, memory: Memory) -> Tensor:
        """The segments of the batch, or the documents; EOS belongs to the next one. (B, T)

        A single segment has no effect: softmax is invariant to a constant.
        """
        lengths = batch.source.lengths
        if batch.segments is not None:
            return lengths.pad(batch.segments)
        ends = lengths.pad(batch.source.tokens) == SPECIAL.eos
        if not self.config.segment_documents:
            return torch.zeros_like(ends, dtype=torch.long)
        return memory.last_document + ends.cumsum(1)
