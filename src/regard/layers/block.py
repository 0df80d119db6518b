"""What all blocks of a stack share: their sizes, and what they keep between steps."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor, nn

from regard.attention.cache import KeyValues, Some, follow, some_of
from regard.attention.config import AttentionShape
from regard.layers.convolution import ConvolutionalFeedForward
from regard.layers.feedforward import Activation, FeedForward, FeedForwardKind, Past
from regard.layers.norm import NormKind, make_norm
from regard.layers.residual import NormOrder, Residual


@dataclass(frozen=True)
class BlockShape:
    """What an encoder or decoder block is built from."""

    width: int
    attention: AttentionShape
    feedforward_width: int
    dropout: float
    activation_dropout: float
    activation: Activation
    feedforward_kind: FeedForwardKind
    norm: NormKind
    norm_order: NormOrder
    final_norm: bool
    norm_epsilon: float | None = None

    def residual(self) -> Residual:
        """A residual connection of this shape."""
        return Residual(self.new_norm(), self.dropout, self.norm_order)

    def new_norm(self) -> nn.Module:
        """A norm of this shape."""
        return make_norm(self.norm, self.width, self.norm_epsilon)

    def feedforward(self, *, causal: bool) -> FeedForward | ConvolutionalFeedForward:
        """A feed-forward network of this shape."""
        sizes = self.width, self.feedforward_width
        if self.feedforward_kind == "convolution":
            return ConvolutionalFeedForward(
                *sizes, self.activation, self.activation_dropout, causal=causal
            )
        gated = self.feedforward_kind == "gated"
        return FeedForward(*sizes, self.activation, self.activation_dropout, gated=gated)

    def last_norm(self) -> nn.Module:
        """What follows the last block of a stack."""
        return self.new_norm() if self.final_norm else nn.Identity()


@dataclass(frozen=True)
class BlockCache:
    """What a block keeps between steps: its past, and the keys and values of a memory."""

    past: KeyValues
    memory: KeyValues | None  # of a decoder's block
    near: Past = ()  # the last inputs of a feed-forward network that looks back; (B, W, ...)

    def grown(self, columns: int) -> BlockCache:
        """The same, with room for so many columns of the past."""
        return replace(self, past=self.past.grown(columns))

    def reorder(self, parents: Tensor) -> None:
        """Each beam goes on from another one of its sentence. (B, W)"""
        for part in self.near:
            follow(part, parents)

    def select(self, sentences: Some) -> BlockCache:
        """Those of some sentences."""
        near = tuple(some_of(part, sentences) for part in self.near)
        memory = None if self.memory is None else self.memory.select(sentences)
        return BlockCache(self.past.select(sentences), memory, near)
