"""A stack of blocks of self-attention and feed-forward: an encoder, or a language model.

Where it is causal, each token sees itself and what came before, and the stack can go on token by
token (`prepare`, `step`) from what it kept of those before.
"""

from __future__ import annotations

from torch import Tensor, nn

from regard.attention.cache import KeyValues, Sight, Sources
from regard.attention.multihead import AttentionRecord
from regard.data.ragged import Lengths
from regard.layers.block import BlockCache, BlockShape


class EncoderBlock(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, shape: BlockShape, *, causal: bool = False) -> None:
        super().__init__()
        self.attention = shape.self_attention()
        self.attention_residual = shape.residual()
        self.feedforward = shape.feedforward(causal=causal)
        self.feedforward_residual = shape.residual()
        self.causal = causal

    def forward(
        self,
        x: Tensor,
        lengths: Lengths,
        record: AttentionRecord | None = None,
        prefix: Tensor | None = None,
    ) -> Tensor:
        """X (N, D) -> (N, D)"""
        y = self.attention_residual.before(x)
        y = self.attention(y, lengths, causal=self.causal, prefix=prefix, record=record)
        return self.rest(x, y, lengths)

    def rest(self, x: Tensor, y: Tensor, lengths: Lengths | None) -> Tensor:
        """The rest of a block after attention, whose output is y. (N, D), (N, D) -> (N, D)"""
        x = self.attention_residual.after(x, y)
        y = self.feedforward(self.feedforward_residual.before(x), lengths)
        return self.feedforward_residual.after(x, y)

    def prepare(self, sentences: int, beams: int, room: int) -> BlockCache:
        """The cache before the first step."""
        past = self.attention.room(sentences, beams * room)
        like = past.keys.new_zeros(sentences, beams, 0)
        return BlockCache(past, None, self.feedforward.nothing_before(like))

    def step(self, x: Tensor, cache: BlockCache, sight: Sight) -> Tensor:
        """The same for one new token a beam: x (B, W, D) -> (B, W, D)"""
        y = self.attention.step(self.attention_residual.before(x), cache.past, sight)
        return self._rest_of_step(x, y, cache)

    def _rest_of_step(self, x: Tensor, y: Tensor, cache: BlockCache) -> Tensor:
        x = self.attention_residual.after(x, y)
        y = self.feedforward.step(self.feedforward_residual.before(x), cache.near)
        return self.feedforward_residual.after(x, y)

    def remember(self, x: Tensor, lengths: Lengths, *, causal: bool) -> tuple[Tensor, KeyValues]:
        """`forward`, causal or not, and what those who come after can look back at."""
        y = self.attention_residual.before(x)
        y, memory = self.attention.remember(y, lengths, causal=causal)
        return self.rest(x, y, lengths), memory

    def step_after(
        self,
        x: Tensor,
        memory: KeyValues,
        sources: Sources,
        cache: BlockCache,
        sight: Sight,
        places: Tensor,
    ) -> Tensor:
        """`step` of tokens at some places (B, W) that also see what was remembered."""
        y = self.attention_residual.before(x)
        y = self.attention.step_after(y, memory, sources, cache.past, sight, places)
        return self._rest_of_step(x, y, cache)


class Encoder(nn.Module):
    """A stack of blocks."""

    def __init__(self, layers: int, shape: BlockShape, *, causal: bool = False) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(EncoderBlock(shape, causal=causal) for _ in range(layers))
        self.norm = shape.last_norm()

    def forward(
        self,
        x: Tensor,
        lengths: Lengths,
        record: AttentionRecord | None = None,
        prefix: Tensor | None = None,
    ) -> Tensor:
        """X (N, D) -> (N, D); of a causal stack, all see so many first tokens: prefix (B,)"""
        for block in self.blocks:
            x = block(x, lengths, record, prefix)
        return self.norm(x)

    def remember(self, x: Tensor, lengths: Lengths, *, causal: bool) -> list[KeyValues]:
        """What later tokens see of these, in each block; causal: these see no later ones."""
        memories = []
        for block in self._blocks():
            x, memory = block.remember(x, lengths, causal=causal)
            memories.append(memory)
        return memories

    def step_after(
        self,
        x: Tensor,
        memories: list[KeyValues],
        sources: Sources,
        caches: list[BlockCache],
        sight: Sight,
        places: Tensor,
    ) -> Tensor:
        """`step` of tokens at some places (B, W) that also see what was remembered."""
        for block, memory, cache in zip(self._blocks(), memories, caches, strict=True):
            x = block.step_after(x, memory, sources, cache, sight, places)
        return self.norm(x)

    def prepare(self, sentences: int, beams: int, room: int) -> list[BlockCache]:
        """The caches before the first step of a causal stack, with room for so many."""
        return [block.prepare(sentences, beams, room) for block in self._blocks()]

    def step(self, x: Tensor, caches: list[BlockCache], sight: Sight) -> Tensor:
        """One new token a beam: x (B, W, D) -> (B, W, D)"""
        for block, cache in zip(self._blocks(), caches, strict=True):
            x = block.step(x, cache, sight)
        return self.norm(x)

    def _blocks(self) -> list[EncoderBlock]:
        return list(self.blocks)  # type: ignore[arg-type]
