"""The Transformer of "Attention Is All You Need" (Vaswani et al., 2017, arXiv:1706.03762).

    encoder_output = Encoder(E_s[x] sqrt(D) + P)
    hidden = Decoder(E_t[y shifted right] sqrt(D) + P, encoder_output)
    p(y_t | y_<t, x) = softmax(hidden_t E_o^T)

The default settings are Transformer-base.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from torch import Tensor

from regard.attention.cache import MIN_COLUMNS, BeamHistory, SourceMask
from regard.attention.multihead import AttentionRecorder
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
    """Settings of a Transformer."""

    embeds_text = True
    kind: Annotated[Literal["transformer"], Doc("model architecture")] = "transformer"


class Transformer(EncoderDecoder):
    """The Transformer encoder-decoder."""

    config: TransformerConfig
    start_capturable = True
    encoder: Encoder
    decoder: Decoder

    def __init__(self, config: TransformerConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        self.encoder = Encoder(config.num_encoder_layers, block_shape(config))
        self.decoder = Decoder(config.num_decoder_layers, block_shape(config))
        self.projection = self.new_projection(self.target_embedding.table)
        initialize(self, config.init)
        # Relative positions depend on the number of positions attended to.
        self.step_capturable = config.positional_encoding != "relative"

    def with_special_tokens(self, ids: Sequence[int]) -> list[int]:
        """The ids of a text with EOS, as the encoder expects it."""
        return [*ids, SPECIAL.eos]

    def hidden_states(self, text: Ragged, *, recorder: AttentionRecorder | None = None) -> Tensor:
        """The encoder output of all tokens. (N, D)"""
        hidden: Tensor = self.encode(text, recorder)
        return hidden

    def start(self, source: Ragged, *, beams: int = 1, capacity: int = 256) -> StackState:
        """The initial state of a search, with a cache for `capacity` tokens of each beam."""
        encoder_output = self.encode(source)
        lengths = source.lengths.padded_to(max(source.lengths.longest, MIN_COLUMNS))
        caches = self.decoder.new_caches(encoder_output, lengths, beams, capacity)
        source_mask = SourceMask.of(lengths.mask, lengths.lengths, encoder_output.dtype)
        history = BeamHistory.of(len(lengths), beams, capacity, source.tokens.device)
        return StackState(caches, history, source_mask)

    def step(self, tokens: Tensor, state: StackState) -> Tensor:
        """Next-token logits after one token per beam: (B, W) -> (B, W, V); updates the state."""
        history = state.history
        view = history.begin_step()
        length = min(history.length, self.max_length or history.length)
        x = self.target_embedding(tokens, history.position, length)
        assert state.source_mask is not None
        x = self.decoder.step(x, state.caches, view, state.source_mask)
        history.end_step()
        return self.projection(x)
