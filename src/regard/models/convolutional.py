"""Convolutional sequence to sequence (Gehring et al., 2017, arXiv:1705.03122).

    encoder_output = Encoder(E_s[x] + P)                        gated convolutions
    hidden = Decoder(E_t[y shifted right] + P, encoder_output)  causal ones, each with attention
    p(y_t | y_<t, x) = softmax(hidden_t E_o^T)

Not implemented: weight normalization, scaled encoder gradients, and an embedding dimension that
differs from that of the layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from regard.attention.cache import Indices, KVCache, SourceMask, reorder_beams, select_rows
from regard.attention.config import AttentionShape
from regard.attention.positions import make_position_embedding
from regard.bounds import LAYERS, LENGTH, Ge, Le
from regard.config import Doc, Formerly
from regard.data.ragged import Ragged
from regard.layers.gated import ConvolutionalDecoder, ConvolutionalEncoder, GatedConvolution
from regard.layers.init import initialize
from regard.models.base import EncoderDecoder, ModelConfig
from regard.models.protocol import Vocabulary


@dataclass(frozen=True)
class ConvolutionalConfig(ModelConfig):
    """Settings of a convolutional encoder-decoder."""

    kind: Annotated[Literal["convolutional"], Doc("model architecture")] = "convolutional"
    dropout: Annotated[
        float, Doc("dropout before convolutions and the output projection"), Ge(0), Le(0.99)
    ] = 0.2
    num_encoder_layers: Annotated[
        int, Doc("number of encoder layers"), Ge(1), LAYERS, Formerly("encoder_layers")
    ] = 8
    num_decoder_layers: Annotated[
        int, Doc("number of decoder layers"), Ge(1), LAYERS, Formerly("decoder_layers")
    ] = 8
    kernel_size: Annotated[
        int, Doc("kernel size of the convolutions; odd"), Ge(1), Le(999), Formerly("kernel")
    ] = 3
    positional_encoding: Annotated[
        Literal["learned", "sinusoidal", "none"], Doc("positional encoding"), Formerly("positions")
    ] = "learned"
    max_positions: Annotated[
        int, Doc("number of learned positions: the maximum sentence length"), Ge(1), LENGTH
    ] = 1024

    def problems(self) -> Iterator[str]:
        """An even kernel size."""
        if self.kernel_size % 2 == 0:
            yield (
                f"kernel_size is {self.kernel_size}, but must be odd; "
                f"set kernel_size={self.kernel_size - 1} or kernel_size={self.kernel_size + 1}"
            )

    @property
    def position_limit(self) -> int | None:
        """Only learned positions are limited."""
        return self.max_positions if self.positional_encoding == "learned" else None

    def make_positions(self) -> nn.Module | None:
        """The positional encoding that is added to embeddings."""
        return make_position_embedding(self.positional_encoding, self.d_model, self.max_positions)

    @property
    def cuda_graphs_unsupported_reason(self) -> str | None:
        """Updates can be captured."""
        return None


@dataclass
class ConvolutionalState:
    """The last inputs of the convolutions, and the keys and values that beams share."""

    windows: list[Tensor]  # (B, W, kernel_size - 1, D)
    source: KVCache
    source_mask: SourceMask
    position: Tensor  # (1,) of the next tokens
    length: int = 1  # the next position is below it

    def reserve(self, length: int, *, exact: bool) -> None:
        """Set the number of positions."""
        self.length = length

    def reorder(self, parents: Tensor) -> None:
        """Replace each beam by its parent, a beam of the same sentence; parents (B, W)."""
        for window in self.windows:
            reorder_beams(window, parents)

    def select(self, sentences: Indices) -> ConvolutionalState:
        """The state of some sentences."""
        return ConvolutionalState(
            [select_rows(window, sentences) for window in self.windows],
            self.source.select(sentences),
            self.source_mask.select(sentences),
            self.position.clone(),
            self.length,
        )


class Convolutional(EncoderDecoder):
    """A convolutional encoder-decoder."""

    config: ConvolutionalConfig
    step_capturable = start_capturable = True
    decoder: ConvolutionalDecoder

    def __init__(self, config: ConvolutionalConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        shape = AttentionShape(d_model=config.d_model, num_heads=1, config=config.attention)
        sizes = config.kernel_size, config.dropout
        self.encoder = ConvolutionalEncoder(config.num_encoder_layers, config.d_model, *sizes)
        self.decoder = ConvolutionalDecoder(config.num_decoder_layers, shape, *sizes)
        self.projection = self.new_projection(self.target_embedding.table)
        initialize(self)
        for module in self.modules():
            if isinstance(module, GatedConvolution):
                module.initialize()

    def start(self, source: Ragged, *, beams: int = 1, capacity: int = 256) -> ConvolutionalState:
        """The initial state of a search; its size does not depend on `capacity`."""
        lengths, encoder_output = source.lengths, self.encode(source)
        windows, cache = self.decoder.new_caches(encoder_output, lengths, beams)
        source_mask = SourceMask.of(lengths.mask, lengths.lengths, encoder_output.dtype)
        position = torch.zeros(1, dtype=torch.long, device=encoder_output.device)
        return ConvolutionalState(windows, cache, source_mask, position)

    def step(self, tokens: Tensor, state: ConvolutionalState) -> Tensor:
        """Next-token logits after one token per beam: (B, W) -> (B, W, V); updates the state."""
        length = min(state.length, self.max_length or state.length)
        x = self.target_embedding(tokens, state.position, length)
        hidden = self.decoder.step(x, state.windows, state.source, state.source_mask)
        state.position += 1
        return self.projection(hidden)
