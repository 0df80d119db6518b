"""How weights begin."""

from __future__ import annotations

from torch import Tensor, nn

from regard.attention.multihead import CrossAttention, SelfAttention
from regard.layers.embedding import Projection


def initialize(model: nn.Module) -> None:
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
        elif isinstance(module, CrossAttention):
            _each(module.memory.weight, module.sizes)


def _each(weight: Tensor, sizes: list[int]) -> None:
    for part in weight.split(sizes):
        nn.init.xavier_uniform_(part)
