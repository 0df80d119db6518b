"""Token embeddings, and the projection of hidden states to logits over the vocabulary."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.ragged import Ragged
from regard.layers.dropout import Dropout


class Embedding(nn.Module):
    """`dropout(E[token] * scale + position)`; the table may be shared with other modules.

    `positions` is None for models whose positional encoding is part of attention. BERT also has
    segment embeddings and a norm before dropout.

    In training, `word_dropout` zeros the embeddings of some tokens, but not their positions.
    """

    def __init__(
        self,
        table: nn.Embedding,
        positions: nn.Module | None,
        *,
        scale: float,
        dropout: float,
        word_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.table = table
        self.positions = positions
        self.scale = scale
        self.dropout = Dropout(dropout)
        self.word_dropout = word_dropout
        self.segments: nn.Embedding | None = None
        self.norm: nn.Module | None = None

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor | None = None,
        longest: int = 0,
        segments: Tensor | None = None,
    ) -> Tensor:
        """Tokens (N,), positions (N,) or (1,), all below `longest`, segments (N,) -> (N, D)"""
        vectors = self.table(tokens)
        if self.training and self.word_dropout:
            vectors = vectors * (torch.rand_like(vectors[:, :1]) >= self.word_dropout)
        if self.positions is None:
            x = vectors * self.scale
        else:
            encoded = self.positions(positions, longest).to(vectors.dtype)
            x = torch.add(encoded, vectors, alpha=self.scale)
        if self.segments is not None:
            x = x + self.segments(torch.zeros_like(tokens) if segments is None else segments)
        return self.dropout(x if self.norm is None else self.norm(x))

    def embed(self, text: Ragged, segments: Tensor | None = None) -> Tensor:
        """The embeddings of a flat batch. (N, D)"""
        return self(text.tokens, text.lengths.positions, text.lengths.longest, segments)


class Projection(nn.Module):
    """The output projection to logits over the vocabulary; it may share an embedding table."""

    def __init__(self, weight: Tensor, *, bias: bool) -> None:
        super().__init__()
        self.weight = weight
        self.bias = nn.Parameter(torch.zeros(weight.shape[0])) if bias else None

    def forward(self, hidden: Tensor) -> Tensor:
        """Hidden (N, D) -> logits (N, V)"""
        return F.linear(hidden, self.weight, self.bias)
