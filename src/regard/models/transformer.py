"""The Transformer of "Attention Is All You Need" (Vaswani et al., 2017, arXiv:1706.03762).

    memory = Encoder(E_s[x] sqrt(D) + P)
    hidden = Decoder(E_t[y shifted right] sqrt(D) + P, memory)
    p(y_t | y_<t, x) = softmax(hidden_t E_o^T)

Defaults are the paper's base model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from torch import Tensor

from regard.attention.cache import LEAST, Sources, Trail
from regard.attention.multihead import AttentionRecord
from regard.config import Doc
from regard.data.ragged import Ragged
from regard.layers.decoder import Decoder
from regard.layers.encoder import Encoder
from regard.layers.init import initialize
from regard.models.base import EncoderDecoder
from regard.models.protocol import Vocabulary
from regard.models.stacks import StackConfig, StackState, block_shape
from regard.text.special import SPECIAL


@dataclass(frozen=True)
class TransformerConfig(StackConfig):
    """The shape of a Transformer."""

    embeds_text = True
    kind: Annotated[Literal["transformer"], Doc("which model")] = "transformer"


class Transformer(EncoderDecoder):
    """Encoder, decoder and the tables between them and the words."""

    config: TransformerConfig
    start_can_be_recorded = True
    encoder: Encoder
    decoder: Decoder

    def __init__(self, config: TransformerConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        self.encoder = Encoder(config.encoder_layers, block_shape(config))
        self.decoder = Decoder(config.decoder_layers, block_shape(config))
        self.projection = self.new_projection(self.target_embedding.table)
        initialize(self, config.init)
        self.can_be_recorded = config.positions != "relative"  # distances depend on the reach

    def text_row(self, ids: Sequence[int]) -> list[int]:
        """A text as the encoder reads it: with EOS."""
        return [*ids, SPECIAL.end]

    def read(self, text: Ragged, *, record: AttentionRecord | None = None) -> Tensor:
        """A vector for each token of a text. (N, D)"""
        hidden: Tensor = self.encode(text, record)
        return hidden

    def start(self, source: Ragged, *, beams: int = 1, room: int = 256) -> StackState:
        """A state for the source sentences, with room for so many beams and tokens of each."""
        memory = self.encode(source)
        lengths = source.lengths.up_to(max(source.lengths.longest, LEAST))
        caches = self.decoder.prepare(memory, lengths, beams, room)
        sources = Sources.of(lengths.mask, lengths.lengths, memory.dtype)
        trail = Trail.of(len(lengths), beams, room, source.tokens.device)
        return StackState(caches, trail, sources)

    def step(self, tokens: Tensor, state: StackState) -> Tensor:
        """Read one token a beam and score the next: (B, W) -> (B, W, V); the state moves on."""
        trail = state.trail
        sight = trail.begin()
        reach = min(trail.reach, self.max_length or trail.reach)
        x = self.target_embedding(tokens, trail.place, reach)
        assert state.sources is not None
        x = self.decoder.step(x, state.caches, sight, state.sources)
        trail.end()
        return self.projection(x)
