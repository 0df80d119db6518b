"""Conversion of the weights and batches of other libraries, for parity tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from regard.text.special import SPECIAL

Table = Mapping[str, Sequence[str]]  # our layer: their layers, whose weights are concatenated


def for_each_block(ours: str, theirs: str, layers: int, block: Table) -> Table:
    """The table of one block, repeated for all blocks of a stack."""
    return {
        f"{ours}.{number}.{our_layer}": [f"{theirs}.{number}.{layer}" for layer in their_layers]
        for number in range(layers)
        for our_layer, their_layers in block.items()
    }


def under_our_names(theirs: Mapping[str, Tensor], table: Table) -> dict[str, Tensor]:
    """Their weights or gradients by our names."""
    return {
        f"{our_layer}.{kind}": torch.cat([theirs[f"{layer}.{kind}"] for layer in their_layers])
        for our_layer, their_layers in table.items()
        for kind in ("weight", "bias")
        if f"{their_layers[0]}.{kind}" in theirs
    }


def shake(model: nn.Module, noise: float = 0.2) -> None:
    """Add noise to all weights, so that norms and biases are not 1 or 0."""
    for weight in model.parameters():
        if weight.requires_grad:
            weight.data += noise * torch.randn_like(weight)


def random_sentences(lengths: Sequence[int], words: int, *, seed: int) -> list[list[int]]:
    """Random ids without special tokens."""
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randint(SPECIAL.eos + 1, words, (length,), generator=generator).tolist()
        for length in lengths
    ]


def padded(rows: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Padded rows and their mask: (B, T, ...) and (B, T)."""
    real = pad_sequence([torch.ones(len(row), dtype=torch.bool) for row in rows], batch_first=True)
    return pad_sequence(list(rows), batch_first=True, padding_value=SPECIAL.pad), real
