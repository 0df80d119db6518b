"""What models made of attention blocks have in common: settings, shape of a block, and state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from torch import Tensor, nn

from regard.attention.cache import KeyValues, Some, Sources, Trail
from regard.attention.config import AttentionShape, PositionName
from regard.attention.positions import Layout, added_positions
from regard.bounds import LAYERS, LENGTH, WIDTH, Ge, Le
from regard.config import Doc
from regard.layers.block import BlockCache, BlockShape
from regard.layers.feedforward import Activation, FeedForwardKind
from regard.layers.init import Initialization
from regard.layers.norm import NormKind
from regard.layers.residual import NormOrder
from regard.models.base import ModelConfig


@dataclass(frozen=True)
class BlockConfig(ModelConfig):
    """The shape of attention blocks."""

    dropout: Annotated[float, Doc("on the output of every sub-layer"), Ge(0), Le(0.99)] = 0.1
    heads: Annotated[int, Doc("attention heads; they divide the width"), Ge(1), WIDTH] = 8
    key_width: Annotated[
        int | None, Doc("size of a head's queries and keys; unset: width / heads"), Ge(1), WIDTH
    ] = None
    attention_dropout: Annotated[float, Doc("on attention weights"), Ge(0), Le(0.99)] = 0.0
    feedforward_width: Annotated[
        int, Doc("inner size of the feed-forward network"), Ge(1), Le(10**6)
    ] = 2048
    feedforward: Annotated[
        FeedForwardKind,
        Doc("two linear layers, a gate beside them, or two convolutions of width 3"),
    ] = "linear"
    activation: Annotated[Activation, Doc("in the feed-forward network")] = "relu"
    activation_dropout: Annotated[float, Doc("inside feed-forward"), Ge(0), Le(0.99)] = 0.0
    norm: Annotated[
        NormKind, Doc("over each token (layer, rms), or over the tokens of a batch (batch)")
    ] = "layer"
    norm_order: Annotated[NormOrder, Doc("the norm after each sub-layer, or before it")] = "post"
    final_norm: Annotated[
        bool | None, Doc("a norm after the last block; unset: with pre-norm only")
    ] = None
    positions: Annotated[
        PositionName,
        Doc(
            "added to embeddings (sinusoidal, learned), told in attention (rotary, relative), none"
        ),
    ] = "sinusoidal"
    max_positions: Annotated[int, Doc("learned positions: the longest sentence"), Ge(1), LENGTH] = (
        1024
    )
    sinusoid_layout: Annotated[
        Layout, Doc("sine and cosine in turns (the paper), or all sines first (Marian)")
    ] = "interleaved"
    init: Annotated[
        Initialization, Doc("scores divided by sqrt(d), or unscaled with smaller queries (t5)")
    ] = "paper"

    def problems(self) -> Iterator[str]:
        """Heads must share the width; some positions ask something of attention."""
        if self.positions == "rotary" and (self.key_width or self.width // self.heads) % 2:
            yield "positions is rotary, which turns pairs of numbers; take an even key_width"
        if self.init == "t5" and self.attention.score != "dot":
            yield (
                "init is t5, whose small queries want scores that are not scaled down again; "
                f"set attention.score=dot, not {self.attention.score}"
            )
        if self.positions == "relative" and self.attention.score != "scaled_dot":
            yield (
                "positions is relative, which is a score of its own; "
                f"leave attention.score at scaled_dot, not {self.attention.score}"
            )
        if self.width % self.heads:
            fitting = [h for h in range(1, min(self.width, 64) + 1) if self.width % h == 0]
            near = min(fitting, key=lambda h: abs(h - self.heads))
            yield (
                f"heads is {self.heads}, which does not divide width {self.width}; "
                f"take {near} heads, or a width of {-(-self.width // self.heads) * self.heads}"
            )

    @property
    def obstacle_to_capture(self) -> str | None:
        """A shape is filled with tokens that nothing else may depend on."""
        if self.norm == "batch":
            return "batch norm would count tokens that only fill a shape"
        if self.attention.score != "scaled_dot" or self.attention.select != "soft":
            return "the kernels support scaled dot-product attention with soft selection only"
        return None

    @property
    def places(self) -> int | None:
        """Only those that were learned have an end."""
        return self.max_positions if self.positions == "learned" else None

    def new_positions(self) -> nn.Module | None:
        """Those that are added to embeddings."""
        return added_positions(self.positions, self.width, self.max_positions, self.sinusoid_layout)

    @property
    def obstacle_to_sharding(self) -> str | None:
        """Batch norm looks at whole batches."""
        if self.norm != "batch":
            return None
        return (
            "model.norm=batch takes its statistics from whole batches, and each of several "
            "processes has a shard of them. Train with one process, or set model.norm=layer."
        )


@dataclass(frozen=True)
class StackConfig(BlockConfig):
    """The shape of an encoder and a decoder made of attention blocks."""

    encoder_layers: Annotated[int, Doc("blocks of the encoder"), Ge(1), LAYERS] = 6
    decoder_layers: Annotated[int, Doc("blocks of the decoder"), Ge(1), LAYERS] = 6


@dataclass
class StackState:
    """Caches of all blocks that write, how far the beams have come, and what they look back at."""

    caches: list[BlockCache]
    trail: Trail
    sources: Sources | None = None  # which places of the source are words

    def reach(self, places: int, *, exact: bool) -> None:
        """The next step looks at so many places; exact: the last of them is where it stands."""
        trail = self.trail
        trail.reach, trail.exact = places, exact
        if places > trail.room:
            trail.grow(max(places, 2 * trail.room))
            columns = trail.beams.shape[1] * trail.room
            self.caches = [cache.grown(columns) for cache in self.caches]

    def begin_with(self, seen: list[KeyValues]) -> None:
        """Before the first step: some places are written, the same for all beams."""
        places = seen[0].keys.shape[2]
        self.reach(places, exact=True)
        for cache, own in zip(self.caches, seen, strict=True):
            cache.past.begin_with(own, self.trail.beams.shape[1])
        self.trail.begin_with(places)

    def reorder(self, parents: Tensor) -> None:
        """Each beam goes on from another one of its sentence. (B, W)"""
        self.trail.reorder(parents)
        for cache in self.caches:
            cache.reorder(parents)

    def select(self, sentences: Some) -> StackState:
        """Some sentences alone."""
        return StackState(
            [cache.select(sentences) for cache in self.caches],
            self.trail.select(sentences),
            None if self.sources is None else self.sources.select(sentences),
        )


def block_shape(config: BlockConfig, norm_epsilon: float | None = None) -> BlockShape:
    """What the blocks of such a model are built from."""
    final_norm = config.norm_order == "pre" if config.final_norm is None else config.final_norm
    return BlockShape(
        width=config.width,
        attention=AttentionShape(
            width=config.width,
            heads=config.heads,
            key_width=config.key_width,
            dropout=config.attention_dropout,
            config=config.attention,
            positions=config.positions,
            layout=config.sinusoid_layout,
        ),
        feedforward_width=config.feedforward_width,
        dropout=config.dropout,
        activation_dropout=config.activation_dropout,
        activation=config.activation,
        feedforward_kind=config.feedforward,
        norm=config.norm,
        norm_order=config.norm_order,
        final_norm=final_norm,
        norm_epsilon=norm_epsilon,
    )
