"""Two streams through one stack (XLNet): what tokens are, and what is asked of their places.

The content stream knows a token itself, the query stream only where it stands; both look at the
content of what comes earlier in some order, with the same weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention.masks import padding, permutation
from regard.attention.masks import segments as of_one_segment
from regard.attention.relative import SegmentScore
from regard.data.ragged import Lengths
from regard.layers.block import BlockShape
from regard.layers.encoder import Encoder, EncoderBlock
from regard.layers.recall import Memory, normed


@dataclass(frozen=True)
class View:
    """Who sees whom in B segments of T tokens with M remembered ones before each."""

    content: Tensor  # (B, 1, T, M + T)
    query: Tensor  # (B, 1, T, M + T)
    other: Tensor  # (B, 1, T, M + T) whether a key is of another segment than the query
    places: Tensor  # (P,) the tokens that are asked for, among all N

    @staticmethod
    def of(
        lengths: Lengths, memory: Memory, ranks: Tensor | None, segments: Tensor, places: Tensor
    ) -> View:
        """All see the memory, and of the segment lower ranks, or all of it without ranks.

        ranks (N,), segments (B, T)
        """

        def mask(*, itself: bool) -> Tensor:
            real = padding(lengths.lengths, lengths.longest).expand(-1, -1, lengths.longest, -1)
            if ranks is not None:
                real = real & permutation(lengths.pad(ranks), itself=itself)
            return nn.functional.pad(real, (memory.length, 0), value=True)

        known = torch.cat([memory.documents, segments], 1)
        other = ~of_one_segment(segments, known)
        return View(mask(itself=True), mask(itself=False), other, places)


class TwoStreamBlock(EncoderBlock):
    """Attention of both streams to the content, then feed-forward for each."""

    def __init__(self, shape: BlockShape, *, causal: bool = False) -> None:
        super().__init__(shape, causal=causal)
        self.segments = SegmentScore(shape.attention.heads, shape.attention.head_width)

    def both(
        self, x: Tensor, asked: Tensor, lengths: Lengths, before: Tensor, view: View
    ) -> tuple[Tensor, Tensor]:
        """X (N, D), asked (P, D), before (B, M, D) -> (N, D), (P, D)"""
        residual = self.attention_residual
        content = residual.before(x)
        recalled = self.attention.recalled(content, lengths, normed(residual, before))

        def bias(query: Tensor) -> Tensor:
            return self.segments(query, view.other)

        found = self.attention.ask(content, lengths, recalled, view.content, extra=bias)
        if len(asked):
            questions = residual.before(asked)
            questions = questions.new_zeros(x.shape).index_copy(0, view.places, questions)
            answers = self.attention.ask(questions, lengths, recalled, view.query, extra=bias)
            asked = self.rest(asked, answers[view.places], None)
        return self.rest(x, found, None), asked


class TwoStreamStack(Encoder):
    """Blocks for two streams, with a memory of the content."""

    block = TwoStreamBlock

    def both(
        self, x: Tensor, asked: Tensor, lengths: Lengths, memory: Memory, view: View
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """X (N, D), asked (P, D) -> both after all blocks, and what each block read of x."""
        read = []
        for block, before in zip(self.blocks, memory.states, strict=True):
            assert isinstance(block, TwoStreamBlock)
            read.append(x)
            x, asked = block.both(x, asked, lengths, before, view)
        return self.norm(x), self.norm(asked), read
