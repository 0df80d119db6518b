"""A Transformer as the two graphs that ONNX gets: the encoder, and one step of the decoder.

A graph of ONNX wants rectangles, so a batch is padded here: (B, S) tokens, and how many of each row
are real. All layers but attention work on single tokens, and get them in one row as everywhere;
layers, scores and selections are the model's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn

from regard.attention.masks import padding
from regard.attention.multihead import CrossAttention, SelfAttention
from regard.attention.positions import LearnedPositions, sinusoids
from regard.layers.decoder import DecoderBlock
from regard.layers.embedding import Embedding
from regard.layers.encoder import EncoderBlock
from regard.models.transformer import Transformer, TransformerConfig

PLACES = 2048  # sinusoids in a graph; not all runtimes of ONNX can compute them as precisely as we


class EncoderGraph(nn.Module):
    """Padded sentences to all that a decoder needs of them: keys and values for each block."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model
        self.embedding = _Embedding(model.source_embedding, model.config)

    def forward(self, tokens: Tensor, lengths: Tensor) -> list[Tensor]:
        """Tokens (B, S), lengths (B,) -> keys and values of each decoder block, (B, H, S, d)"""
        rows, longest = tokens.shape
        places, mask = torch.arange(longest), padding(lengths, longest)
        x = self.embedding(tokens, places).flatten(0, 1)
        for block in cast(Iterable[EncoderBlock], self.model.encoder.blocks):
            y = block.attention_residual.before(x)
            query, *seen = _by_row(block.attention.projected(y, places.repeat(rows)), rows)
            x = block.attention_residual.after(x, _look(block.attention, query, seen, mask))
            y = block.feedforward(block.feedforward_residual.before(x), None)
            x = block.feedforward_residual.after(x, y)
        memory = self.model.encoder.norm(x)
        found: list[Tensor] = []
        for last in cast(Iterable[DecoderBlock], self.model.decoder.blocks):
            found += _by_row(last.cross.keys_values(memory), rows)
        return found


class DecoderGraph(nn.Module):
    """One token a beam, with its past and the memory, to scores of the next and a longer past."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model
        self.embedding = _Embedding(model.target_embedding, model.config)

    def forward(
        self, tokens: Tensor, lengths: Tensor, memory: list[Tensor], past: list[Tensor]
    ) -> list[Tensor]:
        """Tokens (B, W), lengths of the memory (B,), and keys and values of each block.

        memory (B, H, S, d), past (B, W, H, T, d) -> logits (B, W, V), past (B, W, H, T + 1, d)
        """
        place = torch.full((1,), past[0].shape[3], dtype=torch.long)
        mask = padding(lengths, memory[0].shape[2])
        x = self.embedding(tokens, place).flatten(0, 1)
        present: list[Tensor] = []
        for number, block in enumerate(cast(Iterable[DecoderBlock], self.model.decoder.blocks)):
            own = slice(2 * number, 2 * number + 2)
            parts = block.attention.projected(block.attention_residual.before(x), place)
            query, *new = (part.unflatten(0, tokens.shape).unsqueeze(3) for part in parts)
            seen = [torch.cat(pair, 3) for pair in zip(past[own], new, strict=True)]
            present += seen
            x = block.attention_residual.after(x, _look(block.attention, query, seen, None))
            y = block.cross.queries(block.cross_residual.before(x))
            [query] = _by_row([y], len(tokens))
            x = block.cross_residual.after(x, _look(block.cross, query, memory[own], mask))
            y = block.feedforward(block.feedforward_residual.before(x), None)
            x = block.feedforward_residual.after(x, y)
        logits = self.model.projection(self.model.decoder.norm(x))
        return [logits.unflatten(0, tokens.shape), *present]


class _Embedding(nn.Module):
    """What an embedding computes, with a table of positions that is as long as it will ever be."""

    def __init__(self, embedding: Embedding, config: TransformerConfig) -> None:
        super().__init__()
        self.words, self.scale = embedding.table, embedding.scale
        self.positions: nn.Embedding | None = None
        if isinstance(embedding.positions, LearnedPositions):
            self.positions = embedding.positions.table
        elif embedding.positions is not None:
            table = sinusoids(PLACES, config.width, config.sinusoid_layout)
            self.positions = nn.Embedding.from_pretrained(table)

    def forward(self, tokens: Tensor, places: Tensor) -> Tensor:
        """Tokens (..., T) at places (T,) -> (..., T, D)"""
        words: Tensor = self.words(tokens) * self.scale
        return words if self.positions is None else words + self.positions(places)


def _by_row(parts: list[Tensor], rows: int) -> list[Tensor]:
    """(B T, H, d) -> (B, H, T, d)"""
    return [part.unflatten(0, (rows, -1)).transpose(1, 2) for part in parts]


def _look(
    attention: SelfAttention | CrossAttention,
    query: Tensor,
    seen: list[Tensor],
    mask: Tensor | None,
) -> Tensor:
    """What queries gather from keys and values, by the definition; (..., H, T, d) -> (N, D)"""
    key, value = seen
    select = attention.shape.select(training=False, choices=None)
    found = select(attention.score(query, key), mask) @ value
    return attention.combine(found.transpose(-3, -2).flatten(0, -3).flatten(1))
