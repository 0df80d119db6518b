"""Recurrent encoder and decoder: what machine translation was before the Transformer.

    memory, last = Encoder(E_s[x])                  the states of all words, and the last of them
    hidden = Decoder(E_t[y shifted right], last)    Sutskever et al., 2014, arXiv:1409.3215
    hidden = Decoder(E_t[y shifted right], last, memory)    Bahdanau et al., 2015, arXiv:1409.0473
    p(y_t | y_<t, x) = softmax(hidden_t E_o^T)

With `memory=none` all that the decoder knows of a sentence is one vector of fixed size for each
layer: the bottleneck that attention was invented for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from torch import Tensor

from regard.attention.cache import KeyValues, Some, Sources, follow, some_of
from regard.attention.config import AttentionShape
from regard.attention.multihead import AttentionRecord, CrossAttention, MemoryAttention
from regard.bounds import LAYERS, Ge, Le
from regard.config import Doc
from regard.data.ragged import Ragged
from regard.layers.init import initialize
from regard.layers.recurrent import Cell, Past, Recurrence, RecurrentDecoder
from regard.models.base import EncoderDecoder, ModelConfig
from regard.models.protocol import Vocabulary


@dataclass(frozen=True)
class RecurrentConfig(ModelConfig):
    """The shape of a recurrent encoder and decoder."""

    kind: Annotated[Literal["recurrent"], Doc("which model")] = "recurrent"
    dropout: Annotated[float, Doc("between layers and before the output"), Ge(0), Le(0.99)] = 0.2
    cell: Annotated[Cell, Doc("how a state follows from the one before")] = "lstm"
    layers: Annotated[int, Doc("of the encoder, and as many of the decoder"), Ge(1), LAYERS] = 2
    bidirectional: Annotated[bool, Doc("half of the encoder reads backwards")] = True
    memory: Annotated[
        Literal["states", "projected", "none"],
        Doc(
            "what the decoder looks at: the encoder's states as keys and values alike, both "
            "projected from them, or nothing, so that the last state is all that it knows"
        ),
    ] = "states"
    input_feeding: Annotated[
        bool, Doc("the decoder also reads what it found before; slower to train")
    ] = False

    def problems(self) -> Iterator[str]:
        """Two directions share the width; only a memory can be looked at."""
        if self.bidirectional and self.width % 2:
            yield f"width is {self.width}, and both directions have half of it; take an even one"
        if self.memory == "none" and self.input_feeding:
            yield "input_feeding tells what attention found, and memory=none has no attention"

    @property
    def obstacle_to_capture(self) -> str | None:
        """PyTorch's recurrent layers need lengths on the host."""
        return "recurrent layers need the lengths of sentences on the host"


@dataclass
class RecurrentState:
    """What the beams remember, and the memory that those of a sentence share."""

    past: Past  # (B, W, ...) each
    seen: tuple[KeyValues, Sources] | None

    def reach(self, places: int, *, exact: bool) -> None:
        """A state has no places: all that was before is in it."""

    def reorder(self, parents: Tensor) -> None:
        """Each beam goes on from another one of its sentence. (B, W)"""
        for part in self.past:
            follow(part, parents)

    def select(self, sentences: Some) -> RecurrentState:
        """Some sentences alone."""
        past = tuple(some_of(part, sentences) for part in self.past)
        if self.seen is None:
            return RecurrentState(past, None)
        memory, sources = self.seen
        return RecurrentState(past, (memory.select(sentences), sources.select(sentences)))


class Recurrent(EncoderDecoder):
    """Encoder and decoder of recurrent cells, with or without attention between them."""

    config: RecurrentConfig
    decoder: RecurrentDecoder
    can_be_recorded = True  # but no start: PyTorch's layers take other steps for other lengths

    def __init__(self, config: RecurrentConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        sizes = config.width, config.layers, config.dropout
        self.encoder = Recurrence(config.cell, config.width, *sizes, both_ways=config.bidirectional)
        self.decoder = RecurrentDecoder(
            config.cell, *sizes, _attention(config), feeding=config.input_feeding
        )
        self.projection = self.new_projection(self.target_embedding.table)
        initialize(self)

    def encode(self, source: Ragged, record: AttentionRecord | None = None) -> tuple[Tensor, Past]:
        """The states of all source tokens (N, D), and what the decoder begins with."""
        memory, last = self.encoder(self.source_embedding(source.tokens), source.lengths)
        return memory, self.decoder.first(last)

    def start(self, source: Ragged, *, beams: int = 1, room: int = 256) -> RecurrentState:
        """A state for the source sentences; it needs the same room for any number of tokens."""
        memory, past = self.encode(source)
        for_beams = tuple(part.unsqueeze(1).repeat_interleave(beams, 1) for part in past)
        return RecurrentState(for_beams, self.decoder.prepare(memory, source.lengths))

    def step(self, tokens: Tensor, state: RecurrentState) -> Tensor:
        """Read one token a beam and score the next: (B, W) -> (B, W, V); the state moves on."""
        hidden, past = self.decoder.step(self.target_embedding(tokens), state.past, state.seen)
        for part, new in zip(state.past, past, strict=True):
            part.copy_(new)
        return self.projection(hidden)


def _attention(config: RecurrentConfig) -> MemoryAttention | None:
    shape = AttentionShape(width=config.width, heads=1, config=config.attention)
    if config.memory == "none":
        return None
    return CrossAttention(shape) if config.memory == "projected" else MemoryAttention(shape)
