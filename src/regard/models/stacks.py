"""Settings, block shapes and decoding state of models made of Transformer blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from torch import Tensor, nn

from regard.attention.cache import BeamHistory, Indices, KVCache, SourceMask
from regard.attention.config import AttentionShape, PositionName
from regard.attention.positions import Layout, make_position_embedding
from regard.bounds import LAYERS, LENGTH, WIDTH, Ge, Le
from regard.config import Doc, Formerly
from regard.layers.block import BlockCache, BlockShape
from regard.layers.feedforward import Activation, FeedForwardKind
from regard.layers.init import Initialization
from regard.layers.norm import NormKind
from regard.layers.residual import NormOrder
from regard.models.base import ModelConfig


@dataclass(frozen=True)
class BlockConfig(ModelConfig):
    """Settings of Transformer blocks."""

    dropout: Annotated[float, Doc("dropout of the output of each sub-layer"), Ge(0), Le(0.99)] = 0.1
    num_heads: Annotated[
        int, Doc("number of attention heads; must divide d_model"), Ge(1), WIDTH, Formerly("heads")
    ] = 8
    key_dim: Annotated[
        int | None,
        Doc("dimension of the queries and keys of a head; default: d_model / num_heads"),
        Ge(1),
        WIDTH,
        Formerly("key_width"),
    ] = None
    attention_dropout: Annotated[float, Doc("dropout of attention weights"), Ge(0), Le(0.99)] = 0.0
    ffn_dim: Annotated[
        int,
        Doc("hidden dimension of the feed-forward network"),
        Ge(1),
        Le(10**6),
        Formerly("feedforward_width"),
    ] = 2048
    ffn_type: Annotated[
        FeedForwardKind,
        Doc("feed-forward network: two linear layers, gated (GLU), or two convolutions of width 3"),
        Formerly("feedforward"),
    ] = "linear"
    activation: Annotated[Activation, Doc("activation of the feed-forward network")] = "relu"
    activation_dropout: Annotated[
        float, Doc("dropout after the activation of the feed-forward network"), Ge(0), Le(0.99)
    ] = 0.0
    norm: Annotated[NormKind, Doc("normalization layer")] = "layer"
    norm_order: Annotated[NormOrder, Doc("post-norm or pre-norm")] = "post"
    final_norm: Annotated[
        bool | None, Doc("normalize the output of the last block; default: only with pre-norm")
    ] = None
    positional_encoding: Annotated[
        PositionName,
        Doc(
            "positional encoding: added to embeddings (sinusoidal, learned), in attention (rotary, "
            "relative), or none"
        ),
        Formerly("positions"),
    ] = "sinusoidal"
    max_positions: Annotated[
        int, Doc("number of learned positions: the maximum sentence length"), Ge(1), LENGTH
    ] = 1024
    sinusoid_layout: Annotated[
        Layout,
        Doc("order of sinusoids: sines and cosines interleaved, or all sines first (Marian)"),
    ] = "interleaved"
    init: Annotated[
        Initialization,
        Doc("initialization: Glorot (paper), or with queries divided by sqrt(d) instead (t5)"),
    ] = "paper"

    def problems(self) -> Iterator[str]:
        """Invalid numbers of heads, and positions or initialization that need another score."""
        head_dim = self.key_dim or self.d_model // self.num_heads
        if self.positional_encoding == "rotary" and head_dim % 2:
            yield "positional_encoding=rotary requires an even key_dim"
        if self.init == "t5" and self.attention.score != "dot":
            yield f"init=t5 requires attention.score=dot, not {self.attention.score}"
        if self.positional_encoding == "relative" and self.attention.score != "scaled_dot":
            yield (
                "positional_encoding=relative requires attention.score=scaled_dot, not "
                f"{self.attention.score}"
            )
        if self.d_model % self.num_heads:
            divisors = [h for h in range(1, min(self.d_model, 64) + 1) if self.d_model % h == 0]
            nearest = min(divisors, key=lambda h: abs(h - self.num_heads))
            multiple = -(-self.d_model // self.num_heads) * self.num_heads
            yield (
                f"num_heads is {self.num_heads}, which does not divide d_model {self.d_model}; "
                f"set num_heads={nearest} or d_model={multiple}"
            )

    @property
    def cuda_graphs_unsupported_reason(self) -> str | None:
        """Captured batches have filler tokens, which must not affect the others."""
        if self.norm == "batch":
            return "batch norm would include filler tokens in its statistics"
        if self.attention.score != "scaled_dot" or self.attention.select != "soft":
            return "the kernels support scaled dot-product attention with soft selection only"
        return None

    @property
    def position_limit(self) -> int | None:
        """Only learned positions are limited."""
        return self.max_positions if self.positional_encoding == "learned" else None

    def make_positions(self) -> nn.Module | None:
        """The positional encoding that is added to embeddings."""
        sizes = self.d_model, self.max_positions
        return make_position_embedding(self.positional_encoding, *sizes, self.sinusoid_layout)

    @property
    def distributed_unsupported_reason(self) -> str | None:
        """Batch norm would only use the shard of a rank."""
        if self.norm != "batch":
            return None
        return (
            "model.norm=batch is not supported with several processes: its statistics would be "
            "those of a shard of the batch. Train with one process, or set model.norm=layer."
        )


@dataclass(frozen=True)
class StackConfig(BlockConfig):
    """Settings of an encoder-decoder made of Transformer blocks."""

    num_encoder_layers: Annotated[
        int, Doc("number of encoder layers"), Ge(1), LAYERS, Formerly("encoder_layers")
    ] = 6
    num_decoder_layers: Annotated[
        int, Doc("number of decoder layers"), Ge(1), LAYERS, Formerly("decoder_layers")
    ] = 6


@dataclass
class StackState:
    """The decoding state of a stack: KV caches, beam history and source mask."""

    caches: list[BlockCache]
    history: BeamHistory
    source_mask: SourceMask | None = None

    def reserve(self, length: int, *, exact: bool) -> None:
        """Let the next step attend to `length` positions, and grow the caches if necessary."""
        history = self.history
        history.length, history.exact = length, exact
        if length > history.capacity:
            history.grow(max(length, 2 * history.capacity))
            columns = history.beams.shape[1] * history.capacity
            self.caches = [cache.with_capacity(columns) for cache in self.caches]

    def prefill(self, prefixes: list[KVCache]) -> None:
        """Before the first step: fill the caches of all blocks with a prefix that beams share."""
        length = prefixes[0].keys.shape[2]
        self.reserve(length, exact=True)
        for cache, prefix in zip(self.caches, prefixes, strict=True):
            cache.past.prefill(prefix, self.history.beams.shape[1])
        self.history.prefill(length)

    def reorder(self, parents: Tensor) -> None:
        """Replace each beam by its parent, a beam of the same sentence; parents (B, W)."""
        self.history.reorder(parents)
        for cache in self.caches:
            cache.reorder(parents)

    def select(self, sentences: Indices) -> StackState:
        """The state of some sentences."""
        return StackState(
            [cache.select(sentences) for cache in self.caches],
            self.history.select(sentences),
            None if self.source_mask is None else self.source_mask.select(sentences),
        )


def block_shape(config: BlockConfig, norm_epsilon: float | None = None) -> BlockShape:
    """The block shape for these settings."""
    final_norm = config.norm_order == "pre" if config.final_norm is None else config.final_norm
    return BlockShape(
        d_model=config.d_model,
        attention=AttentionShape(
            d_model=config.d_model,
            num_heads=config.num_heads,
            key_dim=config.key_dim,
            dropout=config.attention_dropout,
            config=config.attention,
            positions=config.positional_encoding,
            layout=config.sinusoid_layout,
        ),
        ffn_dim=config.ffn_dim,
        dropout=config.dropout,
        activation_dropout=config.activation_dropout,
        activation=config.activation,
        ffn_type=config.ffn_type,
        norm=config.norm,
        norm_order=config.norm_order,
        final_norm=final_norm,
        norm_epsilon=norm_epsilon,
    )
