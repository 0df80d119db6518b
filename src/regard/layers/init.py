"""Weight initialization with unit variance of attention scores, so that softmax is not saturated.

paper   Glorot initialization of linear layers; scores are divided by sqrt(d)
t5      unscaled scores; query weights are divided by sqrt(d) instead (Raffel et al., 2020)
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from regard.attention.multihead import Attention
from regard.layers.embedding import Projection

Initialization = Literal["paper", "t5"]


def initialize(model: nn.Module, kind: Initialization = "paper") -> None:
    """Glorot for linear layers, zeros for biases, N(0, 1 / width) for embedding tables."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding | Projection):
            # A projection may share its weight with an embedding table.
            nn.init.normal_(module.weight, std=module.weight.shape[1] ** -0.5)
    for attention in (module for module in model.modules() if isinstance(module, Attention)):
        for name, parts in attention.parts.items():
            weight = getattr(attention, name).weight
            # The parts of a packed projection are initialized like separate layers.
            for part in weight.split([*parts.values()]) if len(parts) > 1 else ():
                nn.init.xavier_uniform_(part)
            if kind == "t5" and "query" in parts:  # the first part
                with torch.no_grad():
                    weight[: parts["query"]] /= attention.shape.head_dim**0.5
