"""How weights begin, so that the variance of `q . k` is 1 and softmax is not saturated.

paper   linear layers after Glorot; scores are divided by sqrt(d)
t5      scores are left as they are, and queries begin smaller by sqrt(d) (Raffel et al., 2020)
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from regard.attention.multihead import Attention
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
    for attention in (module for module in model.modules() if isinstance(module, Attention)):
        for name, made in attention.parts.items():
            weight = getattr(attention, name).weight
            # One product makes queries, keys and values; each begins as it would alone.
            for part in weight.split([*made.values()]) if len(made) > 1 else ():
                nn.init.xavier_uniform_(part)
            if kind == "t5" and "query" in made:  # they come first
                with torch.no_grad():
                    weight[: made["query"]] /= attention.shape.head_width**0.5
