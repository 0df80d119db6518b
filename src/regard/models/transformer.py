"""The Transformer of "Attention Is All You Need" (Vaswani et al., 2017, arXiv:1706.03762).

    memory = Encoder(E_s[x] sqrt(D) + P)
    hidden = Decoder(E_t[y shifted right] sqrt(D) + P, memory)
    p(y_t | y_<t, x) = softmax(hidden_t E_o^T)

Defaults are the paper's base model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from torch import Tensor, nn

from regard.attention.cache import LEAST, Some, Sources, Trail
from regard.attention.config import AttentionShape, PositionName
from regard.attention.multihead import AttentionRecord
from regard.attention.positions import Layout, added_positions
from regard.config import Doc, Ge, Le
from regard.data.ragged import Batch, Ragged
from regard.layers.block import BlockShape
from regard.layers.decoder import BlockCache, Decoder
from regard.layers.encoder import Encoder
from regard.layers.feedforward import Activation, FeedForwardKind
from regard.layers.init import Initialization, initialize
from regard.layers.norm import NormKind
from regard.layers.residual import NormOrder
from regard.models.base import Model, ModelConfig
from regard.models.protocol import Predictions, Vocabulary


@dataclass(frozen=True)
class TransformerConfig(ModelConfig):
    """The shape of a Transformer."""

    kind: Annotated[Literal["transformer"], Doc("which model")] = "transformer"
    dropout: Annotated[float, Doc("on the output of every sub-layer"), Ge(0), Le(0.99)] = 0.1
    encoder_layers: Annotated[int, Doc("blocks of the encoder"), Ge(1)] = 6
    decoder_layers: Annotated[int, Doc("blocks of the decoder"), Ge(1)] = 6
    heads: Annotated[int, Doc("attention heads; they divide the width"), Ge(1)] = 8
    key_width: Annotated[
        int | None, Doc("size of a head's queries and keys; unset: width / heads"), Ge(1)
    ] = None
    attention_dropout: Annotated[float, Doc("on attention weights"), Ge(0), Le(0.99)] = 0.0
    feedforward_width: Annotated[int, Doc("inner size of the feed-forward network"), Ge(1)] = 2048
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
    max_positions: Annotated[int, Doc("learned positions: the longest sentence"), Ge(1)] = 1024
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
    def obstacle_to_replay(self) -> str | None:
        """A shape is filled with tokens that nothing may notice."""
        if self.norm == "batch":
            return "batch norm would count tokens that only fill a shape"
        if self.attention.score != "scaled_dot" or self.attention.select != "soft":
            return (
                "the kernels know only attention by scaled dot products, all values by their "
                "weights"
            )
        return None

    @property
    def obstacle_to_sharing(self) -> str | None:
        """Batch norm looks at whole batches."""
        if self.norm != "batch":
            return None
        return (
            "model.norm=batch takes its statistics from whole batches, and several processes have "
            "a share of each. Train with one process, or set model.norm=layer."
        )


@dataclass
class TransformerState:
    """Caches of all decoder blocks, and how far the beams have come."""

    caches: list[BlockCache]
    sources: Sources
    trail: Trail

    def reach(self, places: int, *, exact: bool) -> None:
        """The next step looks at so many places; exact: the last of them is where it stands."""
        trail = self.trail
        trail.reach, trail.exact = places, exact
        if places > trail.room:
            trail.grow(max(places, 2 * trail.room))
            columns = trail.beams.shape[1] * trail.room
            self.caches = [cache.grown(columns) for cache in self.caches]

    def reorder(self, parents: Tensor) -> None:
        """Each beam goes on from another one of its sentence. (B, W)"""
        self.trail.reorder(parents)
        for cache in self.caches:
            cache.reorder(parents)

    def select(self, sentences: Some) -> TransformerState:
        """Some sentences alone."""
        caches = [cache.select(sentences) for cache in self.caches]
        sources, trail = self.sources.select(sentences), self.trail.select(sentences)
        return TransformerState(caches, sources, trail)


class Transformer(Model):
    """Encoder, decoder and the tables between them and the words."""

    config: TransformerConfig

    def __init__(self, config: TransformerConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        self.encoder = Encoder(config.encoder_layers, _shape(config))
        self.decoder = Decoder(config.decoder_layers, _shape(config))
        self.projection = self.new_projection()
        initialize(self, config.init)

    def forward(self, batch: Batch, record: AttentionRecord | None = None) -> Predictions:
        """Hidden states for every target token, each knowing the source and what came before."""
        record = self.recorder(record)
        memory = self.encode(batch.source, record)
        inputs = batch.target.shifted_right(self.start_mark)
        x = self.target_embedding(inputs.tokens, inputs.lengths.positions, inputs.lengths.longest)
        hidden = self.decoder(x, inputs.lengths, memory, batch.source.lengths, record)
        targets = batch.target
        return Predictions(
            hidden, targets.tokens, self.projection, targets.lengths, self.choices(record)
        )

    def encode(self, source: Ragged, record: AttentionRecord | None = None) -> Tensor:
        """The memory: a vector for each source token. (N, D)"""
        lengths = source.lengths
        x = self.source_embedding(source.tokens, lengths.positions, lengths.longest)
        return self.encoder(x, lengths, record)

    def start(self, source: Ragged, *, beams: int = 1, room: int = 256) -> TransformerState:
        """A state for the source sentences, with room for so many beams and tokens of each."""
        memory = self.encode(source)
        lengths = source.lengths.up_to(max(source.lengths.longest, LEAST))
        caches = self.decoder.prepare(memory, lengths, beams, room)
        sources = Sources.of(lengths.mask, lengths.lengths, memory.dtype)
        trail = Trail.of(len(lengths), beams, room, source.tokens.device)
        return TransformerState(caches, sources, trail)

    def step(self, tokens: Tensor, state: TransformerState) -> Tensor:
        """Read one token a beam and score the next: (B, W) -> (B, W, V); the state moves on."""
        trail = state.trail
        sight = trail.begin()
        reach = min(trail.reach, self.max_length or trail.reach)
        x = self.target_embedding(tokens, trail.place, reach)
        x = self.decoder.step(x, state.caches, sight, state.sources)
        trail.end()
        return self.projection(x)

    @property
    def can_be_recorded(self) -> bool:
        """Whether steps with a longer reach than needed are the same: all but distances are."""
        return self.config.positions != "relative"

    @property
    def blocks(self) -> list[nn.Module]:
        """Of encoder and decoder."""
        return [*self.encoder.blocks, *self.decoder.blocks]

    @property
    def max_length(self) -> int | None:
        """The longest sentence that the positions allow; None: any."""
        return self.config.max_positions if self.config.positions == "learned" else None

    def positions(self) -> nn.Module | None:
        """Those that are added to embeddings."""
        config = self.config
        return added_positions(
            config.positions, config.width, config.max_positions, config.sinusoid_layout
        )


def _shape(config: TransformerConfig) -> BlockShape:
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
        ),
        feedforward_width=config.feedforward_width,
        dropout=config.dropout,
        activation_dropout=config.activation_dropout,
        activation=config.activation,
        feedforward_kind=config.feedforward,
        norm=config.norm,
        norm_order=config.norm_order,
        final_norm=final_norm,
    )
