"""The Transformer of "Attention Is All You Need" (Vaswani et al., 2017, arXiv:1706.03762).

    memory = Encoder(E_s[x] sqrt(D) + P)
    hidden = Decoder(E_t[y shifted right] sqrt(D) + P, memory)
    p(y_t | y_<t, x) = softmax(hidden_t E_o^T)

Defaults are the paper's base model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, Self

from torch import Tensor, nn

from regard.attention.cache import LEAST, Some, Sources, Trail
from regard.attention.multihead import AttentionRecord
from regard.config import Doc
from regard.data.batch import Batch
from regard.data.ragged import Ragged
from regard.layers.decoder import Decoder
from regard.layers.encoder import Encoder
from regard.layers.init import initialize
from regard.models.base import AutoregressiveModel, PairModel
from regard.models.protocol import Predictions, Vocabulary
from regard.models.stacks import StackConfig, StackState, block_shape
from regard.text.special import SPECIAL


@dataclass(frozen=True)
class TransformerConfig(StackConfig):
    """The shape of a Transformer."""

    embeds_text = True
    kind: Annotated[Literal["transformer"], Doc("which model")] = "transformer"


@dataclass
class TransformerState(StackState):
    """The decoder's state, and which places of the memory are words."""

    sources: Sources

    def select(self, sentences: Some) -> Self:
        """Some sentences alone."""
        return replace(super().select(sentences), sources=self.sources.select(sentences))


class Transformer(PairModel, AutoregressiveModel):
    """Encoder, decoder and the tables between them and the words."""

    config: TransformerConfig

    def __init__(self, config: TransformerConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        self.encoder = Encoder(config.encoder_layers, block_shape(config))
        self.decoder = Decoder(config.decoder_layers, block_shape(config))
        self.projection = self.new_projection(self.target_embedding.table)
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

    def text_row(self, ids: Sequence[int]) -> list[int]:
        """A text as the encoder reads it: with EOS."""
        return [*ids, SPECIAL.end]

    def read(self, text: Ragged, *, record: AttentionRecord | None = None) -> Tensor:
        """A vector for each token of a text. (N, D)"""
        return self.encode(text, record)

    def start(self, source: Ragged, *, beams: int = 1, room: int = 256) -> TransformerState:
        """A state for the source sentences, with room for so many beams and tokens of each."""
        memory = self.encode(source)
        lengths = source.lengths.up_to(max(source.lengths.longest, LEAST))
        caches = self.decoder.prepare(memory, lengths, beams, room)
        sources = Sources.of(lengths.mask, lengths.lengths, memory.dtype)
        trail = Trail.of(len(lengths), beams, room, source.tokens.device)
        return TransformerState(caches, trail, sources)

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
    def start_can_be_recorded(self) -> bool:
        """Nothing in it waits for a number."""
        return True

    @property
    def blocks(self) -> list[nn.Module]:
        """Of encoder and decoder."""
        return [*self.encoder.blocks, *self.decoder.blocks]
