"""The sizes of blocks, and their caches in decoding."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor, nn

from regard.attention.cache import Indices, KVCache, reorder_beams, select_rows
from regard.attention.config import AttentionShape
from regard.layers.convolution import ConvolutionalFeedForward
from regard.layers.feedforward import Activation, FeedForward, FeedForwardKind, Windows
from regard.layers.norm import NormKind, make_norm
from regard.layers.residual import NormOrder, Residual


@dataclass(frozen=True)
class BlockShape:
    """The sizes and settings of an encoder or decoder block."""

    d_model: int
    attention: AttentionShape
    ffn_dim: int
    dropout: float
    activation_dropout: float
    activation: Activation
    ffn_type: FeedForwardKind
    norm: NormKind
    norm_order: NormOrder
    final_norm: bool
    norm_epsilon: float | None = None

    def new_residual(self) -> Residual:
        """A new residual connection."""
        return Residual(self.new_norm(), self.dropout, self.norm_order)

    def new_norm(self) -> nn.Module:
        """A new normalization layer."""
        return make_norm(self.norm, self.d_model, self.norm_epsilon)

    def new_feedforward(self, *, causal: bool) -> FeedForward | ConvolutionalFeedForward:
        """A new feed-forward network."""
        sizes = self.d_model, self.ffn_dim
        if self.ffn_type == "convolution":
            return ConvolutionalFeedForward(
                *sizes, self.activation, self.activation_dropout, causal=causal
            )
        gated = self.ffn_type == "gated"
        return FeedForward(*sizes, self.activation, self.activation_dropout, gated=gated)

    def new_final_norm(self) -> nn.Module:
        """The normalization layer after the last block of a stack."""
        return self.new_norm() if self.final_norm else nn.Identity()


@dataclass(frozen=True)
class BlockCache:
    """The state of a block between decoding steps."""

    past: KVCache  # of self-attention
    source: KVCache | None  # of the source or the encoder output
    windows: Windows = ()  # the last inputs of a convolutional feed-forward network; (B, W, ...)

    def with_capacity(self, columns: int) -> BlockCache:
        """The same cache with `columns` columns of past keys and values."""
        return replace(self, past=self.past.with_capacity(columns))

    def reorder(self, parents: Tensor) -> None:
        """Replace each beam by its parent, a beam of the same sentence; parents (B, W)."""
        for window in self.windows:
            reorder_beams(window, parents)

    def select(self, sentences: Indices) -> BlockCache:
        """The cache of some sentences."""
        windows = tuple(select_rows(window, sentences) for window in self.windows)
        source = None if self.source is None else self.source.select(sentences)
        return BlockCache(self.past.select(sentences), source, windows)
