"""Two-stream self-attention (XLNet): a content stream and a query stream with shared weights.

The content stream encodes a token and its context, the query stream only its position and context.
Both attend to the content stream of the tokens that come earlier in a permutation.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention.masks import padding, permutation
from regard.attention.masks import segments as segment_mask
from regard.attention.relative import SegmentScore
from regard.data.ragged import Lengths
from regard.layers.block import BlockShape
from regard.layers.encoder import Encoder, EncoderBlock
from regard.layers.segment_recurrence import Memory, norm_memory


@dataclass(frozen=True)
class StreamMasks:
    """The attention masks of both streams, for B segments of T tokens after a memory of M."""

    content: Tensor  # (B, 1, T, M + T)
    query: Tensor  # (B, 1, T, M + T)
    other: Tensor  # (B, 1, T, M + T) whether query and key are in different segments
    targets: Tensor  # (P,) the indices of the predicted tokens, among all N

    @staticmethod
    def of(
        lengths: Lengths, memory: Memory, ranks: Tensor | None, segments: Tensor, targets: Tensor
    ) -> StreamMasks:
        """Masks in which the memory and all tokens of lower rank are visible.

        Without ranks, all tokens are visible.

        ranks (N,), segments (B, T)
        """

        def mask(*, itself: bool) -> Tensor:
            visible = padding(lengths.lengths, lengths.longest).expand(-1, -1, lengths.longest, -1)
            if ranks is not None:
                visible = visible & permutation(lengths.pad(ranks), itself=itself)
            return nn.functional.pad(visible, (memory.length, 0), value=True)

        key_segments = torch.cat([memory.documents, segments], 1)
        other = ~segment_mask(segments, key_segments)
        return StreamMasks(mask(itself=True), mask(itself=False), other, targets)


class TwoStreamBlock(EncoderBlock):
    """Attention of both streams to the content stream, then feed-forward network."""

    def __init__(self, shape: BlockShape, *, causal: bool = False) -> None:
        super().__init__(shape, causal=causal)
        self.segments = SegmentScore(shape.attention.num_heads, shape.attention.head_dim)

    def forward_streams(
        self, x: Tensor, query: Tensor, lengths: Lengths, memory: Tensor, masks: StreamMasks
    ) -> tuple[Tensor, Tensor]:
        """Content stream x (N, D), query stream (P, D), memory (B, M, D) -> (N, D), (P, D)"""
        residual, attend = self.attention_residual, self.attention.attend_with_memory
        content = residual.before(x)
        memory = norm_memory(residual, memory)
        keys_values = self.attention.keys_values_with_memory(content, lengths, memory)

        def bias(queries: Tensor) -> Tensor:
            return self.segments(queries, masks.other)

        y = attend(content, lengths, keys_values, masks.content, make_bias=bias)
        if len(query):
            z = residual.before(query)
            z = z.new_zeros(x.shape).index_copy(0, masks.targets, z)
            z = attend(z, lengths, keys_values, masks.query, make_bias=bias)
            query = self.after_attention(query, z[masks.targets], None)
        return self.after_attention(x, y, None), query


class TwoStreamStack(Encoder):
    """A stack of two-stream blocks with segment recurrence of the content stream."""

    block = TwoStreamBlock

    def forward_streams(
        self, x: Tensor, query: Tensor, lengths: Lengths, memory: Memory, masks: StreamMasks
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """X (N, D), query (P, D) -> both streams, and the content input of each block."""
        inputs = []
        for block, states in zip(self.blocks, memory.states, strict=True):
            assert isinstance(block, TwoStreamBlock)
            inputs.append(x)
            x, query = block.forward_streams(x, query, lengths, states, masks)
        return self.norm(x), self.norm(query), inputs
