"""Tokens to vectors, and vectors back to scores over the vocabulary."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.ragged import Ragged
from regard.layers.dropout import Dropout


class Embedding(nn.Module):
    """`dropout(E[token] * scale + position)`; the table may be shared with other modules.

    Without positions, the order of words must be told elsewhere, or is not told at all. What BERT
    has beside: a vector for each of some segments, and a norm before dropout.

    In training, `word_dropout` leaves only the position of some tokens: a word is missing there.
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
        words = self.table(tokens)
        if self.training and self.word_dropout:
            words = words * (torch.rand_like(words[:, :1]) >= self.word_dropout)
        if self.positions is None:
            x = words * self.scale
        else:
            places = self.positions(positions, longest).to(words.dtype)
            x = torch.add(places, words, alpha=self.scale)
        if self.segments is not None:
            x = x + self.segments(torch.zeros_like(tokens) if segments is None else segments)
        return self.dropout(x if self.norm is None else self.norm(x))

    def of(self, text: Ragged, segments: Tensor | None = None) -> Tensor:
        """What the tokens of a text become, each at its place. (N, D)"""
        return self(text.tokens, text.lengths.positions, text.lengths.longest, segments)


class Projection(nn.Module):
    """A score for each word of the vocabulary, from an embedding table or weights of its own."""

    def __init__(self, weight: Tensor, *, bias: bool) -> None:
        super().__init__()
        self.weight = weight
        self.bias = nn.Parameter(torch.zeros(weight.shape[0])) if bias else None

    def forward(self, hidden: Tensor) -> Tensor:
        """Hidden (N, D) -> logits (N, V)"""
        return F.linear(hidden, self.weight, self.bias)
