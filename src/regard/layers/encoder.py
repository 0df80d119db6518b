"""A stack of blocks of self-attention and feed-forward: an encoder, or a language model.

Where it is causal, each token sees itself and what came before, and the stack can go on token by
token (`prepare`, `step`) from what it kept of those before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor, nn

from regard.attention.cache import KeyValues, Sight, Sources
from regard.attention.multihead import AttentionRecord, SelfAttention
from regard.data.ragged import Lengths
from regard.layers.block import BlockCache, BlockShape


class EncoderBlock(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, shape: BlockShape, *, causal: bool = False) -> None:
        super().__init__()
        self.attention = SelfAttention(shape.attention)
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
        return self.feedforward_residual.around(x, lambda y: self.feedforward(y, lengths))

    def prepare(self, sentences: int, beams: int, room: int) -> BlockCache:
        """The cache before the first step."""
        past = self.attention.room(sentences, beams * room)
        like = past.keys.new_zeros(sentences, beams, 0)
        return BlockCache(past, None, self.feedforward.nothing_before(like))

    def step(
        self,
        x: Tensor,
        cache: BlockCache,
        sight: Sight,
        sources: Sources | None = None,
        places: Tensor | None = None,
    ) -> Tensor:
        """The same for one new token a beam: x (B, W, D) -> (B, W, D)

        Tokens after a source that was remembered stand at some places (B, W).
        """
        y = self.attention_residual.before(x)
        if cache.memory is None or sources is None or places is None:
            y = self.attention.step(y, cache.past, sight)
        else:
            y = self.attention.step_after(y, cache.memory, sources, cache.past, sight, places)
        x = self.attention_residual.after(x, y)
        return self.feedforward_residual.around(x, lambda y: self.feedforward.step(y, cache.near))

    def remember(self, x: Tensor, lengths: Lengths, *, causal: bool) -> tuple[Tensor, KeyValues]:
        """`forward`, causal or not, and what those who come after can look back at."""
        y = self.attention_residual.before(x)
        y, memory = self.attention.remember(y, lengths, causal=causal)
        return self.rest(x, y, lengths), memory


class Encoder(nn.Module):
    """A stack of blocks."""

    block: ClassVar[type[EncoderBlock]] = EncoderBlock

    def __init__(self, layers: int, shape: BlockShape, *, causal: bool = False) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(self.block(shape, causal=causal) for _ in range(layers))
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

    def prepare(self, sentences: int, beams: int, room: int) -> list[BlockCache]:
        """The caches before the first step of a causal stack, with room for so many."""
        return [block.prepare(sentences, beams, room) for block in self._blocks()]

    def step(
        self,
        x: Tensor,
        caches: Sequence[BlockCache],
        sight: Sight,
        sources: Sources | None = None,
        places: Tensor | None = None,
    ) -> Tensor:
        """One new token a beam: x (B, W, D) -> (B, W, D)"""
        for block, cache in zip(self._blocks(), caches, strict=True):
            x = block.step(x, cache, sight, sources, places)
        return self.norm(x)

    def _blocks(self) -> list[EncoderBlock]:
        return list(self.blocks)  # type: ignore[arg-type]
