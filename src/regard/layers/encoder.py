"""A stack of self-attention blocks: an encoder, or the decoder of a language model.

A causal stack can also decode token by token with KV caches (`new_caches`, `step`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor, nn

from regard.attention.cache import CacheView, KVCache, SourceMask
from regard.attention.multihead import AttentionRecorder, SelfAttention
from regard.data.ragged import Lengths
from regard.layers.block import BlockCache, BlockShape


class EncoderBlock(nn.Module):
    """Self-attention and feed-forward network."""

    def __init__(self, shape: BlockShape, *, causal: bool = False) -> None:
        super().__init__()
        self.attention = SelfAttention(shape.attention)
        self.attention_residual = shape.new_residual()
        self.feedforward = shape.new_feedforward(causal=causal)
        self.feedforward_residual = shape.new_residual()
        self.causal = causal

    def forward(
        self,
        x: Tensor,
        lengths: Lengths,
        recorder: AttentionRecorder | None = None,
        prefix: Tensor | None = None,
    ) -> Tensor:
        """X (N, D) -> (N, D)"""
        y = self.attention_residual.before(x)
        y = self.attention(y, lengths, causal=self.causal, prefix=prefix, recorder=recorder)
        return self.after_attention(x, y, lengths)

    def after_attention(self, x: Tensor, y: Tensor, lengths: Lengths | None) -> Tensor:
        """The rest of the block, given the attention output y. (N, D), (N, D) -> (N, D)"""
        x = self.attention_residual.after(x, y)
        return self.feedforward_residual.around(x, lambda y: self.feedforward(y, lengths))

    def new_cache(self, sentences: int, beams: int, capacity: int) -> BlockCache:
        """An empty cache for `capacity` positions."""
        past = self.attention.new_cache(sentences, beams * capacity)
        like = past.keys.new_zeros(sentences, beams, 0)
        return BlockCache(past, None, self.feedforward.initial_state(like))

    def step(
        self,
        x: Tensor,
        cache: BlockCache,
        view: CacheView,
        source_mask: SourceMask | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """`forward` of one new token per beam: x (B, W, D) -> (B, W, D)

        With a cached source, `positions` (B, W) are those of the new tokens.
        """
        y = self.attention_residual.before(x)
        if cache.source is None or source_mask is None or positions is None:
            y = self.attention.step(y, cache.past, view)
        else:
            source = cache.source, source_mask
            y = self.attention.step_with_source(y, *source, cache.past, view, positions)
        x = self.attention_residual.after(x, y)
        return self.feedforward_residual.around(
            x, lambda y: self.feedforward.step(y, cache.windows)
        )

    def forward_with_cache(
        self, x: Tensor, lengths: Lengths, *, causal: bool
    ) -> tuple[Tensor, KVCache]:
        """`forward`, causal or not, and the keys and values for later tokens."""
        y = self.attention_residual.before(x)
        y, cache = self.attention.forward_with_cache(y, lengths, causal=causal)
        return self.after_attention(x, y, lengths), cache


class Encoder(nn.Module):
    """A stack of blocks."""

    block: ClassVar[type[EncoderBlock]] = EncoderBlock

    def __init__(self, num_layers: int, shape: BlockShape, *, causal: bool = False) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(self.block(shape, causal=causal) for _ in range(num_layers))
        self.norm = shape.new_final_norm()

    def forward(
        self,
        x: Tensor,
        lengths: Lengths,
        recorder: AttentionRecorder | None = None,
        prefix: Tensor | None = None,
    ) -> Tensor:
        """X (N, D) -> (N, D); if causal, the first `prefix` (B,) tokens are visible to all"""
        for block in self.blocks:
            x = block(x, lengths, recorder, prefix)
        return self.norm(x)

    def forward_with_cache(self, x: Tensor, lengths: Lengths, *, causal: bool) -> list[KVCache]:
        """The keys and values of each block, for later tokens; `causal`: of a causal pass."""
        caches = []
        for block in self._blocks():
            x, cache = block.forward_with_cache(x, lengths, causal=causal)
            caches.append(cache)
        return caches

    def new_caches(self, sentences: int, beams: int, capacity: int) -> list[BlockCache]:
        """Empty caches of a causal stack for `capacity` positions."""
        return [block.new_cache(sentences, beams, capacity) for block in self._blocks()]

    def step(
        self,
        x: Tensor,
        caches: Sequence[BlockCache],
        view: CacheView,
        source_mask: SourceMask | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """One new token per beam: x (B, W, D) -> (B, W, D)"""
        for block, cache in zip(self._blocks(), caches, strict=True):
            x = block.step(x, cache, view, source_mask, positions)
        return self.norm(x)

    def _blocks(self) -> list[EncoderBlock]:
        return list(self.blocks)  # type: ignore[arg-type]
