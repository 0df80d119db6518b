"""Convolutional sequence to sequence (Gehring et al., 2017, arXiv:1705.03122).

    memory = Encoder(E_s[x] + P)                        gated convolutions, each over a few words
    hidden = Decoder(E_t[y shifted right] + P, memory)  the same, causal, each with attention
    p(y_t | y_<t, x) = softmax(hidden_t E_o^T)

What is left out of the paper: weight normalisation, smaller gradients for the encoder, and sizes of
embeddings that differ from those of the layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from regard.attention.cache import KeyValues, Some, Sources, follow, some_of
from regard.attention.config import AttentionShape
from regard.attention.positions import added_positions
from regard.bounds import LAYERS, LENGTH, Ge, Le
from regard.config import Doc
from regard.data.ragged import Ragged
from regard.layers.gated import ConvolutionalDecoder, ConvolutionalEncoder, GatedConvolution
from regard.layers.init import initialize
from regard.models.base import EncoderDecoder, ModelConfig
from regard.models.protocol import Vocabulary


@dataclass(frozen=True)
class ConvolutionalConfig(ModelConfig):
    """The shape of a convolutional encoder and decoder."""

    kind: Annotated[Literal["convolutional"], Doc("which model")] = "convolutional"
    dropout: Annotated[
        float, Doc("before every convolution and before the output"), Ge(0), Le(0.99)
    ] = 0.2
    encoder_layers: Annotated[int, Doc("convolutions of the encoder"), Ge(1), LAYERS] = 8
    decoder_layers: Annotated[int, Doc("convolutions of the decoder"), Ge(1), LAYERS] = 8
    kernel: Annotated[int, Doc("words that a convolution sees at once; odd"), Ge(1), Le(999)] = 3
    positions: Annotated[Literal["learned", "sinusoidal", "none"], Doc("added to embeddings")] = (
        "learned"
    )
    max_positions: Annotated[int, Doc("learned positions: the longest sentence"), Ge(1), LENGTH] = (
        1024
    )

    def problems(self) -> Iterator[str]:
        """As many words before a word as after it."""
        if self.kernel % 2 == 0:
            yield (
                f"kernel is {self.kernel}, and a word is in its midst; "
                f"take {self.kernel - 1} or {self.kernel + 1}"
            )

    @property
    def places(self) -> int | None:
        """Only those that were learned have an end."""
        return self.max_positions if self.positions == "learned" else None

    def new_positions(self) -> nn.Module | None:
        """Those that are added to embeddings."""
        return added_positions(self.positions, self.width, self.max_positions)

    @property
    def obstacle_to_capture(self) -> str | None:
        """Nothing in it waits for a number."""
        return None


@dataclass
class ConvolutionalState:
    """The last inputs of every convolution, and the memory that the beams of a sentence share."""

    windows: list[Tensor]  # (B, W, kernel - 1, D)
    memory: KeyValues
    sources: Sources
    place: Tensor  # (1,) where the next tokens will stand
    places: int = 1

    def reach(self, places: int, *, exact: bool) -> None:
        """The next step stands at one of so many places."""
        self.places = places

    def reorder(self, parents: Tensor) -> None:
        """Each beam goes on from another one of its sentence. (B, W)"""
        for window in self.windows:
            follow(window, parents)

    def select(self, sentences: Some) -> ConvolutionalState:
        """Some sentences alone."""
        return ConvolutionalState(
            [some_of(window, sentences) for window in self.windows],
            self.memory.select(sentences),
            self.sources.select(sentences),
            self.place.clone(),
            self.places,
        )


class Convolutional(EncoderDecoder):
    """Encoder and decoder of gated convolutions."""

    config: ConvolutionalConfig
    can_be_recorded = start_can_be_recorded = True
    decoder: ConvolutionalDecoder

    def __init__(self, config: ConvolutionalConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        shape = AttentionShape(width=config.width, heads=1, config=config.attention)
        sizes = config.kernel, config.dropout
        self.encoder = ConvolutionalEncoder(config.encoder_layers, config.width, *sizes)
        self.decoder = ConvolutionalDecoder(config.decoder_layers, shape, *sizes)
        self.projection = self.new_projection(self.target_embedding.table)
        initialize(self)
        for module in self.modules():
            if isinstance(module, GatedConvolution):
                module.initialize()

    def start(self, source: Ragged, *, beams: int = 1, room: int = 256) -> ConvolutionalState:
        """A state for the source sentences; a window needs no room for what is past."""
        lengths, memory = source.lengths, self.encode(source)
        windows, seen = self.decoder.prepare(memory, lengths, beams)
        sources = Sources.of(lengths.mask, lengths.lengths, memory.dtype)
        place = torch.zeros(1, dtype=torch.long, device=memory.device)
        return ConvolutionalState(windows, seen, sources, place)

    def step(self, tokens: Tensor, state: ConvolutionalState) -> Tensor:
        """Read one token a beam and score the next: (B, W) -> (B, W, V); the state moves on."""
        places = min(state.places, self.max_length or state.places)
        x = self.target_embedding(tokens, state.place, places)
        hidden = self.decoder.step(x, state.windows, state.memory, state.sources)
        state.place += 1
        return self.projection(hidden)
