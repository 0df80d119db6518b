"""How weights begin, so that the variance of `q . k` is 1 and softmax is not saturated.

paper   linear layers after Glorot; scores are divided by sqrt(d)
t5      scores are left as they are, and queries begin smaller by sqrt(d) (Raffel et al., 2020)
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention.multihead import CrossAttention, PositionalAttention, SelfAttention
from regard.layers.embedding import Projection

Initialization = Literal["paper", "t5"]


def initialize(model: nn.Module, kind: Initialization = "paper") -> None:
    """Linear layers after Glorot, biases zero, tables N(0, 1) once scaled by sqrt(width)."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding | Projection):
            # A projection that shares its table with an embedding begins as that one would.
            nn.init.normal_(module.weight, std=module.weight.shape[1] ** -0.5)
    for module in model.modules():
        # One product makes queries, keys and values; each begins as it would alone.
        if isinstance(module, SelfAttention):
            _each(module.project.weight, module.sizes)
        elif isinstance(module, PositionalAttention):
            _each(module.places.weight, module.sizes)
        elif isinstance(module, CrossAttention):
            _each(module.memory.weight, module.sizes)
    if kind == "t5":
        _shrink_queries(model)


def _each(weight: Tensor, sizes: list[int]) -> None:
    for part in weight.split(sizes):
        nn.init.xavier_uniform_(part)


@torch.no_grad()
def _shrink_queries(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, SelfAttention):
            module.project.weight[: module.sizes[0]] /= module.shape.head_width**0.5
        elif isinstance(module, PositionalAttention):
            module.places.weight[: module.sizes[0]] /= module.shape.head_width**0.5
        elif isinstance(module, CrossAttention):
            module.query.weight /= module.shape.head_width**0.5
