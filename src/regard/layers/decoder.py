"""The decoder: blocks of self-attention, attention over the encoder, and feed-forward.

It is causal, or it writes all tokens at once: then no position is hidden from another.
"""

from __future__ import annotations

from torch import Tensor, nn

from regard.attention.cache import Sight, Sources
from regard.attention.multihead import (
    AttentionRecord,
    CrossAttention,
    PositionalAttention,
    SelfAttention,
)
from regard.attention.positions import SinusoidalPositions
from regard.data.ragged import Lengths
from regard.layers.block import BlockCache, BlockShape


class DecoderBlock(nn.Module):
    """Self-attention, attention by position if `positional`, cross-attention, feed-forward."""

    def __init__(
        self, shape: BlockShape, *, causal: bool, positional: bool, mask_diagonal: bool
    ) -> None:
        super().__init__()
        self.causal = causal
        self.attention = SelfAttention(shape.attention, mask_diagonal=mask_diagonal)
        self.attention_residual = shape.residual()
        self.positional = PositionalAttention(shape.attention) if positional else None
        self.positional_residual = shape.residual() if positional else None
        self.cross = CrossAttention(shape.attention)
        self.cross_residual = shape.residual()
        self.feedforward = shape.feedforward(causal=causal)
        self.feedforward_residual = shape.residual()

    def forward(
        self,
        x: Tensor,
        lengths: Lengths,
        memory: Tensor,
        memory_lengths: Lengths,
        record: AttentionRecord | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """X (N, D), memory (M, D), positions (N, D) -> (N, D)"""
        own = record if record is None or self.causal else record.of_decoder()
        x = self.attention_residual.around(
            x, lambda y: self.attention(y, lengths, causal=self.causal, record=own)
        )
        if (look := self.positional) is not None and self.positional_residual is not None:
            x = self.positional_residual.around(x, lambda y: look(y, positions, lengths))
        x = self.cross_residual.around(
            x, lambda y: self.cross(y, lengths, memory, memory_lengths, record=record)
        )
        return self.feedforward_residual.around(x, lambda y: self.feedforward(y, lengths))

    def prepare(self, memory: Tensor, lengths: Lengths, beams: int, room: int) -> BlockCache:
        """The cache before the first step."""
        return BlockCache(
            self.attention.room(len(lengths), beams * room),
            self.cross.prepare(memory, lengths),
            self.feedforward.nothing_before(memory.new_zeros(len(lengths), beams, 0)),
        )

    def step(self, x: Tensor, cache: BlockCache, sight: Sight, sources: Sources) -> Tensor:
        """The same for one new token a beam: x (B, W, D) -> (B, W, D)"""
        memory = cache.memory
        assert memory is not None
        x = self.attention_residual.around(x, lambda y: self.attention.step(y, cache.past, sight))
        x = self.cross_residual.around(x, lambda y: self.cross.step(y, memory, sources))
        return self.feedforward_residual.around(x, lambda y: self.feedforward.step(y, cache.near))


class Decoder(nn.Module):
    """A stack of blocks; `positional`: each also attends by position.

    With `mask_diagonal` no position attends to itself in self-attention.
    """

    def __init__(
        self,
        layers: int,
        shape: BlockShape,
        *,
        causal: bool = True,
        positional: bool = False,
        mask_diagonal: bool = False,
    ) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            DecoderBlock(shape, causal=causal, positional=positional, mask_diagonal=mask_diagonal)
            for _ in range(layers)
        )
        self.norm = shape.last_norm()
        self.positions = SinusoidalPositions(shape.width, "interleaved") if positional else None

    def forward(
        self,
        x: Tensor,
        lengths: Lengths,
        memory: Tensor,
        memory_lengths: Lengths,
        record: AttentionRecord | None = None,
    ) -> Tensor:
        """X (N, D), memory (M, D) -> (N, D)"""
        positions = None
        if self.positions is not None:
            positions = self.positions(lengths.positions, lengths.longest).to(x.dtype)
        for block in self.blocks:
            x = block(x, lengths, memory, memory_lengths, record, positions)
        return self.norm(x)

    def prepare(self, memory: Tensor, lengths: Lengths, beams: int, room: int) -> list[BlockCache]:
        """The caches before the first step, with room for so many."""
        return [block.prepare(memory, lengths, beams, room) for block in self._blocks()]

    def step(self, x: Tensor, caches: list[BlockCache], sight: Sight, sources: Sources) -> Tensor:
        """One new token a beam: x (B, W, D) -> (B, W, D)"""
        for block, cache in zip(self._blocks(), caches, strict=True):
            x = block.step(x, cache, sight, sources)
        return self.norm(x)

    def _blocks(self) -> list[DecoderBlock]:
        return list(self.blocks)  # type: ignore[arg-type]
