"""Recurrent encoder and decoder, with or without attention.

    states, last = Encoder(E_s[x])                  the states of all tokens, and the last state
    hidden = Decoder(E_t[y shifted right], last)    Sutskever et al., 2014, arXiv:1409.3215
    hidden = Decoder(E_t[y shifted right], last, states)    Bahdanau et al., 2015, arXiv:1409.0473
    p(y_t | y_<t, x) = softmax(hidden_t E_o^T)

With `cross_attention=none` the decoder only gets one vector of fixed size for each layer: the
bottleneck that attention removes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from torch import Tensor

from regard.attention.cache import Indices, KVCache, SourceMask, reorder_beams, select_rows
from regard.attention.config import AttentionShape
from regard.attention.multihead import AttentionRecorder, CrossAttention, UnprojectedCrossAttention
from regard.bounds import LAYERS, Ge, Le
from regard.config import Doc, Formerly
from regard.data.ragged import Ragged
from regard.layers.init import initialize
from regard.layers.recurrent import Cell, HiddenState, Recurrence, RecurrentDecoder
from regard.models.base import EncoderDecoder, ModelConfig
from regard.models.protocol import Vocabulary


@dataclass(frozen=True)
class RecurrentConfig(ModelConfig):
    """Settings of a recurrent encoder-decoder."""

    kind: Annotated[Literal["recurrent"], Doc("model architecture")] = "recurrent"
    dropout: Annotated[
        float, Doc("dropout between layers and before the output projection"), Ge(0), Le(0.99)
    ] = 0.2
    cell: Annotated[Cell, Doc("type of recurrent cell")] = "lstm"
    num_layers: Annotated[
        int,
        Doc("number of layers of the encoder and of the decoder"),
        Ge(1),
        LAYERS,
        Formerly("layers"),
    ] = 2
    bidirectional: Annotated[
        bool, Doc("bidirectional encoder, with d_model / 2 units per direction")
    ] = True
    cross_attention: Annotated[
        Literal["states", "projected", "none"],
        Doc(
            "keys and values of cross-attention: the encoder states, projections of them, or none "
            "(no attention; the decoder only gets the last encoder state)"
        ),
        Formerly("memory"),
    ] = "states"
    input_feeding: Annotated[
        bool, Doc("feed the previous attention output into the decoder; slower to train")
    ] = False

    def problems(self) -> Iterator[str]:
        """An odd d_model, or input feeding without attention."""
        if self.bidirectional and self.d_model % 2:
            yield f"d_model is {self.d_model}, but must be even if bidirectional=true"
        if self.cross_attention == "none" and self.input_feeding:
            yield "input_feeding=true requires attention; set cross_attention=states or projected"

    @property
    def cuda_graphs_unsupported_reason(self) -> str | None:
        """PyTorch's recurrent layers need lengths on the host."""
        return "recurrent layers need the lengths of sentences on the host"


@dataclass
class RecurrentState:
    """The hidden state of the beams, and the keys and values that the beams of a sentence share."""

    hidden: HiddenState  # (B, W, ...) each
    source: tuple[KVCache, SourceMask] | None

    def reserve(self, length: int, *, exact: bool) -> None:
        """The size of a hidden state does not depend on the length."""

    def reorder(self, parents: Tensor) -> None:
        """Replace each beam by its parent, a beam of the same sentence; parents (B, W)."""
        for part in self.hidden:
            reorder_beams(part, parents)

    def select(self, sentences: Indices) -> RecurrentState:
        """The state of some sentences."""
        hidden = tuple(select_rows(part, sentences) for part in self.hidden)
        if self.source is None:
            return RecurrentState(hidden, None)
        cache, mask = self.source
        return RecurrentState(hidden, (cache.select(sentences), mask.select(sentences)))


class Recurrent(EncoderDecoder):
    """A recurrent encoder-decoder."""

    config: RecurrentConfig
    decoder: RecurrentDecoder
    step_capturable = True  # `start` is not: PyTorch's layers need the lengths on the host

    def __init__(self, config: RecurrentConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        sizes = config.d_model, config.num_layers, config.dropout
        self.encoder = Recurrence(
            config.cell, config.d_model, *sizes, bidirectional=config.bidirectional
        )
        self.decoder = RecurrentDecoder(
            config.cell, *sizes, _attention(config), input_feeding=config.input_feeding
        )
        self.projection = self.new_projection(self.target_embedding.table)
        initialize(self)

    def encode(
        self, source: Ragged, recorder: AttentionRecorder | None = None
    ) -> tuple[Tensor, HiddenState]:
        """The states of all source tokens (N, D), and the initial state of the decoder."""
        states, last = self.encoder(self.source_embedding(source.tokens), source.lengths)
        return states, self.decoder.initial_state(last)

    def start(self, source: Ragged, *, beams: int = 1, capacity: int = 256) -> RecurrentState:
        """The initial state of a search; its size does not depend on `capacity`."""
        encoder_output, initial = self.encode(source)
        hidden = tuple(part.unsqueeze(1).repeat_interleave(beams, 1) for part in initial)
        return RecurrentState(hidden, self.decoder.new_cache(encoder_output, source.lengths))

    def step(self, tokens: Tensor, state: RecurrentState) -> Tensor:
        """Next-token logits after one token per beam: (B, W) -> (B, W, V); updates the state."""
        x = self.target_embedding(tokens)
        y, hidden = self.decoder.step(x, state.hidden, state.source)
        for part, new in zip(state.hidden, hidden, strict=True):
            part.copy_(new)
        return self.projection(y)


def _attention(config: RecurrentConfig) -> UnprojectedCrossAttention | None:
    shape = AttentionShape(d_model=config.d_model, num_heads=1, config=config.attention)
    if config.cross_attention == "none":
        return None
    return (
        CrossAttention(shape)
        if config.cross_attention == "projected"
        else UnprojectedCrossAttention(shape)
    )
