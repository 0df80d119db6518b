"""The decoder: blocks of self-attention, cross-attention and feed-forward network.

It is causal, or, in a non-autoregressive model, attends in both directions.
"""

from __future__ import annotations

from torch import Tensor, nn

from regard.attention.cache import CacheView, SourceMask
from regard.attention.multihead import (
    AttentionRecorder,
    CrossAttention,
    PositionalAttention,
    SelfAttention,
)
from regard.attention.positions import SinusoidalPositions
from regard.data.ragged import Lengths
from regard.layers.block import BlockCache, BlockShape


class DecoderBlock(nn.Module):
    """Self-attention, optional positional attention, cross-attention, feed-forward network."""

    def __init__(
        self, shape: BlockShape, *, causal: bool, positional: bool, mask_diagonal: bool
    ) -> None:
        super().__init__()
        self.causal = causal
        self.attention = SelfAttention(shape.attention, mask_diagonal=mask_diagonal)
        self.attention_residual = shape.new_residual()
        self.positional = PositionalAttention(shape.attention) if positional else None
        self.positional_residual = shape.new_residual() if positional else None
        self.cross = CrossAttention(shape.attention)
        self.cross_residual = shape.new_residual()
        self.feedforward = shape.new_feedforward(causal=causal)
        self.feedforward_residual = shape.new_residual()

    def forward(
        self,
        x: Tensor,
        lengths: Lengths,
        encoder_output: Tensor,
        source_lengths: Lengths,
        recorder: AttentionRecorder | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """X (N, D), encoder_output (M, D), positions (N, D) -> (N, D)"""
        self_recorder = recorder if recorder is None or self.causal else recorder.for_decoder()
        x = self.attention_residual.around(
            x, lambda y: self.attention(y, lengths, causal=self.causal, recorder=self_recorder)
        )
        if (attend := self.positional) is not None and self.positional_residual is not None:
            x = self.positional_residual.around(x, lambda y: attend(y, positions, lengths))
        x = self.cross_residual.around(
            x, lambda y: self.cross(y, lengths, encoder_output, source_lengths, recorder=recorder)
        )
        return self.feedforward_residual.around(x, lambda y: self.feedforward(y, lengths))

    def new_cache(
        self, encoder_output: Tensor, lengths: Lengths, beams: int, capacity: int
    ) -> BlockCache:
        """A cache for `capacity` positions, with the keys and values of cross-attention."""
        return BlockCache(
            self.attention.new_cache(len(lengths), beams * capacity),
            self.cross.new_cache(encoder_output, lengths),
            self.feedforward.initial_state(encoder_output.new_zeros(len(lengths), beams, 0)),
        )

    def step(
        self, x: Tensor, cache: BlockCache, view: CacheView, source_mask: SourceMask
    ) -> Tensor:
        """`forward` of one new token per beam: x (B, W, D) -> (B, W, D)"""
        source = cache.source
        assert source is not None
        x = self.attention_residual.around(x, lambda y: self.attention.step(y, cache.past, view))
        x = self.cross_residual.around(x, lambda y: self.cross.step(y, source, source_mask))
        return self.feedforward_residual.around(
            x, lambda y: self.feedforward.step(y, cache.windows)
        )


class Decoder(nn.Module):
    """A stack of blocks; `positional`: with positional attention in each block.

    With `mask_diagonal` no position attends to itself in self-attention.
    """

    def __init__(
        self,
        num_layers: int,
        shape: BlockShape,
        *,
        causal: bool = True,
        positional: bool = False,
        mask_diagonal: bool = False,
    ) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            DecoderBlock(shape, causal=causal, positional=positional, mask_diagonal=mask_diagonal)
            for _ in range(num_layers)
        )
        self.norm = shape.new_final_norm()
        self.positions = SinusoidalPositions(shape.d_model, "interleaved") if positional else None

    def forward(
        self,
        x: Tensor,
        lengths: Lengths,
        encoder_output: Tensor,
        source_lengths: Lengths,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        """X (N, D), encoder_output (M, D) -> (N, D)"""
        positions = None
        if self.positions is not None:
            positions = self.positions(lengths.positions, lengths.longest).to(x.dtype)
        for block in self.blocks:
            x = block(x, lengths, encoder_output, source_lengths, recorder, positions)
        return self.norm(x)

    def new_caches(
        self, encoder_output: Tensor, lengths: Lengths, beams: int, capacity: int
    ) -> list[BlockCache]:
        """Caches for `capacity` positions."""
        sizes = beams, capacity
        return [block.new_cache(encoder_output, lengths, *sizes) for block in self._blocks()]

    def step(
        self, x: Tensor, caches: list[BlockCache], view: CacheView, source_mask: SourceMask
    ) -> Tensor:
        """One new token per beam: x (B, W, D) -> (B, W, D)"""
        for block, cache in zip(self._blocks(), caches, strict=True):
            x = block.step(x, cache, view, source_mask)
        return self.norm(x)

    def _blocks(self) -> list[DecoderBlock]:
        return list(self.blocks)  # type: ignore[arg-type]
