"""The sizes that all blocks of a stack share."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from regard.attention.config import AttentionShape
from regard.attention.multihead import CrossAttention, SelfAttention
from regard.layers.convolution import ConvolutionalFeedForward
from regard.layers.feedforward import Activation, FeedForward, FeedForwardKind
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

    def self_attention(self) -> SelfAttention:
        """Attention of this shape within a sentence."""
        return SelfAttention(self.attention)

    def cross_attention(self) -> CrossAttention:
        """Attention of this shape to another sentence."""
        return CrossAttention(self.attention)

    def residual(self) -> Residual:
        """A residual connection of this shape."""
        return Residual(make_norm(self.norm, self.width), self.dropout, self.norm_order)

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
        return make_norm(self.norm, self.width) if self.final_norm else nn.Identity()
