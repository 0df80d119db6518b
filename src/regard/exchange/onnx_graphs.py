"""A Transformer as two modules for ONNX export: the encoder, and one decoder step.

Batches are padded here, since ONNX graphs need rectangular tensors: tokens (B, S) and lengths (B,).
All layers except attention get flattened tokens as usual; layers, attention scores and weights are
computed by the model's modules.
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

# Precomputed sinusoids in a graph; not all ONNX runtimes compute them with sufficient precision.
MAX_POSITIONS = 2048


class EncoderGraph(nn.Module):
    """Encodes padded sentences to cross-attention keys and values of each decoder block."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model
        self.embedding = _Embedding(model.source_embedding, model.config)

    def forward(self, tokens: Tensor, lengths: Tensor) -> list[Tensor]:
        """Tokens (B, S), lengths (B,) -> keys and values of each decoder block, (B, H, S, d)"""
        rows, longest = tokens.shape
        positions, mask = torch.arange(longest), padding(lengths, longest)
        x = self.embedding(tokens, positions).flatten(0, 1)
        for block in cast(Iterable[EncoderBlock], self.model.encoder.blocks):
            y = block.attention_residual.before(x)
            projected = block.attention.project_qkv(y, positions.repeat(rows))
            query, *keys_values = _by_row(projected, rows)
            x = block.attention_residual.after(
                x, _attend(block.attention, query, keys_values, mask)
            )
            y = block.feedforward(block.feedforward_residual.before(x), None)
            x = block.feedforward_residual.after(x, y)
        encoder_output = self.model.encoder.norm(x)
        cross: list[Tensor] = []
        for decoder_block in cast(Iterable[DecoderBlock], self.model.decoder.blocks):
            cross += _by_row(decoder_block.cross.keys_values(encoder_output), rows)
        return cross


class DecoderGraph(nn.Module):
    """One decoder step: next-token logits and the extended KV cache of each beam."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model
        self.embedding = _Embedding(model.target_embedding, model.config)

    def forward(
        self, tokens: Tensor, lengths: Tensor, cross: list[Tensor], past: list[Tensor]
    ) -> list[Tensor]:
        """Tokens (B, W), source lengths (B,), and keys and values of each block.

        cross (B, H, S, d), past (B, W, H, T, d) -> logits (B, W, V), past (B, W, H, T + 1, d)
        """
        position = torch.full((1,), past[0].shape[3], dtype=torch.long)
        mask = padding(lengths, cross[0].shape[2])
        x = self.embedding(tokens, position).flatten(0, 1)
        present: list[Tensor] = []
        for number, block in enumerate(cast(Iterable[DecoderBlock], self.model.decoder.blocks)):
            pair = slice(2 * number, 2 * number + 2)  # keys and values of this block
            projected = block.attention.project_qkv(block.attention_residual.before(x), position)
            query, *new = (part.unflatten(0, tokens.shape).unsqueeze(3) for part in projected)
            keys_values = [torch.cat(parts, 3) for parts in zip(past[pair], new, strict=True)]
            present += keys_values
            x = block.attention_residual.after(
                x, _attend(block.attention, query, keys_values, None)
            )
            y = block.cross.queries(block.cross_residual.before(x))
            [query] = _by_row([y], len(tokens))
            x = block.cross_residual.after(x, _attend(block.cross, query, cross[pair], mask))
            y = block.feedforward(block.feedforward_residual.before(x), None)
            x = block.feedforward_residual.after(x, y)
        logits = self.model.projection(self.model.decoder.norm(x))
        return [logits.unflatten(0, tokens.shape), *present]


class _Embedding(nn.Module):
    """Token embeddings plus positions from a table of fixed length."""

    def __init__(self, embedding: Embedding, config: TransformerConfig) -> None:
        super().__init__()
        self.words, self.scale = embedding.table, embedding.scale
        self.positions: nn.Embedding | None = None
        if isinstance(embedding.positions, LearnedPositions):
            self.positions = embedding.positions.table
        elif embedding.positions is not None:
            table = sinusoids(MAX_POSITIONS, config.d_model, config.sinusoid_layout)
            self.positions = nn.Embedding.from_pretrained(table)

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Tokens (..., T), positions (T,) -> (..., T, D)"""
        embedded: Tensor = self.words(tokens) * self.scale
        return embedded if self.positions is None else embedded + self.positions(positions)


def _by_row(parts: list[Tensor], rows: int) -> list[Tensor]:
    """(B T, H, d) -> (B, H, T, d)"""
    return [part.unflatten(0, (rows, -1)).transpose(1, 2) for part in parts]


def _attend(
    attention: SelfAttention | CrossAttention,
    query: Tensor,
    keys_values: list[Tensor],
    mask: Tensor | None,
) -> Tensor:
    """Compute attention with explicit weights; (..., H, T, d) -> (N, D)"""
    key, value = keys_values
    select = attention.shape.make_select(training=False, log_probs=None)
    context = select(attention.score(query, key), mask) @ value
    return attention.combine(context.transpose(-3, -2).flatten(0, -3).flatten(1))
