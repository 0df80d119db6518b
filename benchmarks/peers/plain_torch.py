"""`torch.nn.Transformer` in plain PyTorch.

It always applies dropout to attention weights and activations; that is turned off, so that it does
the same work as the others.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from peers.padded import PaddedBatch, PaddedTrainer
from regard.text.special import SPECIAL
from training_task import TrainingTask

NAME = "torch.nn.Transformer"
VARIANTS = {"cpu": ["", "bf16"], "cuda": ["", "compiled"]}
_MAX_POSITIONS = 512


def trainer(task: TrainingTask, variant: str) -> PaddedTrainer:
    """A trainer of a new model."""
    model = PlainTransformer(task)
    return PaddedTrainer(task, model, model, variant)


class PlainTransformer(nn.Module):
    """`nn.Transformer` with sinusoidal positions and tied embeddings."""

    def __init__(self, task: TrainingTask) -> None:
        super().__init__()
        size = task.size
        self.table = nn.Embedding(task.vocabulary, size.d_model, padding_idx=SPECIAL.pad)
        nn.init.normal_(self.table.weight, std=size.d_model**-0.5)
        self.dropout = nn.Dropout(task.dropout)
        self.transformer = nn.Transformer(
            size.d_model,
            size.num_heads,
            size.num_layers,
            size.num_layers,
            size.ffn_dim,
            task.dropout,
            batch_first=True,
        )
        _disable_inner_dropout(self.transformer)
        self.sinusoids: Tensor
        self.register_buffer("sinusoids", _sinusoids(size.d_model))

    def forward(self, batch: PaddedBatch) -> Tensor:
        """Logits (B, T, V)."""
        padding = None if batch.mask is None else ~batch.mask
        length = batch.inputs.shape[1]
        future = torch.ones(length, length, dtype=torch.bool, device=batch.inputs.device).triu(1)
        hidden = self.transformer(
            self._embed(batch.source),
            self._embed(batch.inputs),
            tgt_mask=future,
            tgt_is_causal=True,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        return F.linear(hidden, self.table.weight)

    def _embed(self, ids: Tensor) -> Tensor:
        scale = math.sqrt(self.table.embedding_dim)
        return self.dropout(self.table(ids) * scale + self.sinusoids[: ids.shape[1]])


def _disable_inner_dropout(transformer: nn.Transformer) -> None:
    for module in transformer.modules():
        if isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0
        if isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
            module.dropout = nn.Dropout(0.0)  # between the two linear layers


def _sinusoids(width: int) -> Tensor:
    frequencies = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    angles = torch.arange(_MAX_POSITIONS)[:, None] * frequencies
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
