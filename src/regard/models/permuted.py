"""XLNet (Yang et al., 2019, arXiv:1906.08237): a language model of words in any order.

    z is a drawn order of the places; the last 1/K of it are asked for, given all before them in z:

    p(x_{z_t} | x_{z_<t}) = softmax( g_{z_t} E_o^T + b )      g knows the place z_t, not the word

Each place has two streams (`layers/two_streams.py`): h, what stands there, and g, what is asked.
Distances and whether two tokens are of one segment are told in attention; a memory stands before
each segment. XLNet's own form is that of the settings by default, with `segment_documents=false`:
there only segments that are told count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from regard.attention.multihead import AttentionRecord
from regard.attention.positions import Layout
from regard.bounds import Ge, Le
from regard.config import Doc
from regard.data.batch import Batch, PermutedBatch
from regard.data.ragged import Ragged
from regard.layers.block import BlockShape
from regard.layers.feedforward import Activation
from regard.layers.init import initialize
from regard.layers.recall import Memory
from regard.layers.two_streams import TwoStreamStack, View
from regard.models.language import NormEpsilon
from regard.models.memory import MemoryConfig, RememberingModel, StreamPredictions
from regard.models.protocol import Vocabulary
from regard.text.special import SPECIAL


@dataclass(frozen=True)
class PermutedConfig(MemoryConfig):
    """The shape of a permutation language model."""

    task = "permutation_language_modeling"
    autoregressive = False
    embeds_text = True
    has_attention_maps = False
    kind: Annotated[Literal["permuted"], Doc("which model")] = "permuted"
    one_in: Annotated[
        int, Doc("of so many tokens one is asked for: the last of a drawn order"), Ge(1), Le(1000)
    ] = 6
    segment_documents: Annotated[
        bool, Doc("documents of a stream are segments: tokens know which others are of their own")
    ] = True
    scale_embedding: Annotated[bool, Doc("multiply embeddings by sqrt(width)")] = False
    output_bias: Annotated[bool, Doc("a bias for each word of the output")] = True
    activation: Annotated[Activation, Doc("in the feed-forward network")] = "gelu"
    norm_epsilon: NormEpsilon = 1e-12
    sinusoid_layout: Annotated[
        Layout, Doc("sine and cosine in turns, or all sines first (XLNet)")
    ] = "halves"

    def problems(self) -> Iterator[str]:
        """Two streams cannot tell who chose what."""
        yield from super().problems()
        if self.attention.estimator == "reinforce":
            yield "attention.estimator is reinforce, which needs words in order; take another"


class Permuted(RememberingModel):
    """A stack of two streams, and words after it."""

    config: PermutedConfig
    encoder: TwoStreamStack

    def __init__(self, config: PermutedConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary, causal=False)
        self.question = nn.Parameter(torch.empty(config.width))  # what g is before the first block
        self.projection = self.new_projection(self.embedding.table)
        initialize(self, config.init)
        nn.init.normal_(self.question, std=config.width**-0.5)

    def new_stack(self, shape: BlockShape, *, causal: bool) -> TwoStreamStack:
        """Blocks of two streams; their attention has no biases but those of its scores."""
        return TwoStreamStack(self.config.layers, self.with_distances(shape, bias=False))

    @property
    def blocks(self) -> list[nn.Module]:
        """Nothing is compiled: it was never tried."""
        return []

    def forward(
        self,
        batch: Batch,
        record: AttentionRecord | None = None,
        memory: Memory | None = None,
    ) -> StreamPredictions:
        """Hidden states for all words that are asked for; without an order, for all words.

        Whatever the batch does not ask for is seen by all. Without an order each token sees all.
        """
        assert isinstance(batch, PermutedBatch)
        text, targets = batch.source, batch.target.tokens
        if batch.ranks is None:
            hidden, _, memory = self.streams(batch, targets.new_zeros(0), memory)
            return StreamPredictions(hidden, targets, self.projection, text.lengths, memory=memory)
        places = batch.asked
        _, asked, memory = self.streams(batch, places, memory)
        return StreamPredictions(asked, targets[places], self.projection, memory=memory)

    def text_row(self, ids: Sequence[int]) -> list[int]:
        """A text as it is read: with EOS."""
        return [*ids, SPECIAL.end]

    def read(
        self,
        text: Ragged,
        segments: Tensor | None = None,
        *,
        record: AttentionRecord | None = None,
    ) -> Tensor:
        """A vector for each token of a text, all of which it sees. (N, D)"""
        nothing = text.tokens.new_zeros(0)
        return self.streams(PermutedBatch(text, text, segments=segments), nothing)[0]

    def streams(
        self, batch: PermutedBatch, places: Tensor, memory: Memory | None = None
    ) -> tuple[Tensor, Tensor, Memory | None]:
        """Vectors of tokens (N, D) and of questions at places (P,), (P, D); what to remember."""
        lengths = batch.source.lengths
        x = self.embedding(batch.source.tokens)
        if memory is None:
            memory = self.empty_memory(len(lengths), x)
        segments = self._segments(batch, memory)
        view = View.of(lengths, memory, batch.ranks, segments, places)
        asked = self.embedding.dropout(self.question.expand(len(places), -1))
        hidden, asked, read = self.encoder.both(x, asked, lengths, memory, view)
        if batch.segments is not None:  # to the next rows, all this is of the first kind
            segments = torch.zeros_like(segments)
        return hidden, asked, memory.after(read, lengths, segments)

    def in_order(self, tokens: Sequence[int], before: int | None) -> PermutedBatch:
        """All are asked for, from left to right."""
        text = Ragged.of([tokens])
        return PermutedBatch(text, text, ranks=torch.arange(1, len(tokens) + 1))

    def _segments(self, batch: PermutedBatch, memory: Memory) -> Tensor:
        """Those of the batch, or else documents; EOS belongs to what follows it. (B, T)

        Where all are of one segment, segments do not count: softmax does not mind what all share.
        """
        lengths = batch.source.lengths
        if batch.segments is not None:
            return lengths.pad(batch.segments)
        ends = lengths.pad(batch.source.tokens) == SPECIAL.end
        if not self.config.segment_documents:
            return torch.zeros_like(ends, dtype=torch.long)
        return memory.last_document + ends.cumsum(1)
