"""The decoder: blocks of masked self-attention, attention over the encoder, and feed-forward."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from regard.attention.cache import KeyValues
from regard.attention.multihead import AttentionRecord
from regard.data.ragged import Lengths
from regard.layers.block import BlockShape
from regard.layers.feedforward import Past


@dataclass(frozen=True)
class BlockCache:
    """What a block keeps between steps: its past, and the keys and values of the memory."""

    past: KeyValues | None
    memory: KeyValues
    near: Past = ()  # the last inputs of a feed-forward network that looks back

    def select(self, rows: Tensor, *, memory_too: bool) -> BlockCache:
        """These rows; the memory stays where every row keeps its sentence."""
        past = self.past.select(rows) if self.past else None
        memory = self.memory.select(rows) if memory_too else self.memory
        return BlockCache(past, memory, tuple(part.index_select(0, rows) for part in self.near))


class DecoderBlock(nn.Module):
    """Self-attention to what came before, attention to the source, feed-forward."""

    def __init__(self, shape: BlockShape) -> None:
        super().__init__()
        self.attention = shape.self_attention()
        self.attention_residual = shape.residual()
        self.cross = shape.cross_attention()
        self.cross_residual = shape.residual()
        self.feedforward = shape.feedforward(causal=True)
        self.feedforward_residual = shape.residual()

    def forward(
        self,
        x: Tensor,
        lengths: Lengths,
        memory: Tensor,
        memory_lengths: Lengths,
        record: AttentionRecord | None = None,
    ) -> Tensor:
        """X (N, D), memory (M, D) -> (N, D)"""
        y = self.attention_residual.before(x)
        y = self.attention(y, lengths, causal=True, record=record)
        x = self.attention_residual.after(x, y)
        y = self.cross_residual.before(x)
        y = self.cross(y, lengths, memory, memory_lengths, record=record)
        x = self.cross_residual.after(x, y)
        y = self.feedforward(self.feedforward_residual.before(x), lengths)
        return self.feedforward_residual.after(x, y)

    def step(
        self, x: Tensor, cache: BlockCache, memory_mask: Tensor | None
    ) -> tuple[Tensor, BlockCache]:
        """The same for one new token a row: x (B, D) -> (B, D)"""
        y, past = self.attention.step(self.attention_residual.before(x), cache.past)
        x = self.attention_residual.after(x, y)
        y = self.cross.step(self.cross_residual.before(x), cache.memory, memory_mask)
        x = self.cross_residual.after(x, y)
        y, near = self.feedforward.step(self.feedforward_residual.before(x), cache.near)
        return self.feedforward_residual.after(x, y), BlockCache(past, cache.memory, near)


class Decoder(nn.Module):
    """A stack of blocks."""

    def __init__(self, layers: int, shape: BlockShape) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(DecoderBlock(shape) for _ in range(layers))
        self.norm = shape.last_norm()

    def forward(
        self,
        x: Tensor,
        lengths: Lengths,
        memory: Tensor,
        memory_lengths: Lengths,
        record: AttentionRecord | None = None,
    ) -> Tensor:
        """X (N, D), memory (M, D) -> (N, D)"""
        for block in self.blocks:
            x = block(x, lengths, memory, memory_lengths, record)
        return self.norm(x)

    def prepare(self, memory: Tensor, lengths: Lengths) -> list[BlockCache]:
        """The caches before the first step."""
        return [BlockCache(None, block.cross.prepare(memory, lengths)) for block in self._blocks()]

    def step(
        self, x: Tensor, caches: list[BlockCache], memory_mask: Tensor | None
    ) -> tuple[Tensor, list[BlockCache]]:
        """One new token a row: x (B, D) -> (B, D)"""
        after: list[BlockCache] = []
        for block, cache in zip(self._blocks(), caches, strict=True):
            x, cache = block.step(x, cache, memory_mask)
            after.append(cache)
        return self.norm(x), after

    def _blocks(self) -> list[DecoderBlock]:
        return list(self.blocks)  # type: ignore[arg-type]
