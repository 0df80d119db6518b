"""`torch.nn.Transformer`, as people use it who take PyTorch and nothing else.

It always drops attention weights and activations too; that is turned off, so that it does the same
work as the others.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lesson import Lesson
from peers.padded import Padded, PaddedLearner
from regard.text.special import SPECIAL

NAME = "torch.nn.Transformer"
FORMS = {"cpu": ["", "bf16"], "cuda": ["", "compiled"]}
_LONGEST = 512


def learner(lesson: Lesson, form: str) -> PaddedLearner:
    """A fresh model."""
    model = PlainTransformer(lesson)
    return PaddedLearner(lesson, model, model, form)


class PlainTransformer(nn.Module):
    """Embeddings, sinusoids, `nn.Transformer`, and the embeddings again."""

    def __init__(self, lesson: Lesson) -> None:
        super().__init__()
        size = lesson.size
        self.table = nn.Embedding(lesson.vocabulary, size.width, padding_idx=SPECIAL.pad)
        nn.init.normal_(self.table.weight, std=size.width**-0.5)
        self.dropout = nn.Dropout(lesson.dropout)
        self.transformer = nn.Transformer(
            size.width,
            size.heads,
            size.layers,
            size.layers,
            size.feedforward,
            lesson.dropout,
            batch_first=True,
        )
        _drop_outputs_only(self.transformer)
        self.sinusoids: Tensor
        self.register_buffer("sinusoids", _sinusoids(size.width))

    def forward(self, batch: Padded) -> Tensor:
        """Logits (B, T, V)."""
        padding = None if batch.real is None else ~batch.real
        length = batch.inputs.shape[1]
        future = torch.ones(length, length, dtype=torch.bool, device=batch.inputs.device).triu(1)
        hidden = self.transformer(
            self._embedded(batch.source),
            self._embedded(batch.inputs),
            tgt_mask=future,
            tgt_is_causal=True,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        return F.linear(hidden, self.table.weight)

    def _embedded(self, ids: Tensor) -> Tensor:
        scale = math.sqrt(self.table.embedding_dim)
        return self.dropout(self.table(ids) * scale + self.sinusoids[: ids.shape[1]])


def _drop_outputs_only(transformer: nn.Transformer) -> None:
    for module in transformer.modules():
        if isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0
        if isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
            module.dropout = nn.Dropout(0.0)  # between the two linear layers


def _sinusoids(width: int) -> Tensor:
    rates = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    angles = torch.arange(_LONGEST)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
