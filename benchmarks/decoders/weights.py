"""regard's weights under the names of other libraries.

Each layer of a block has a neutral name, which each library maps to its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Weights = dict[str, Tensor]
# regard's layers, and the layers that are concatenated in each.
_FUSED = {
    "attention.project": ["self.query", "self.key", "self.value"],
    "attention.combine": ["self.combine"],
    "attention_residual.norm": ["self.norm"],
    "cross.query": ["cross.query"],
    "cross.memory": ["cross.key", "cross.value"],
    "cross.combine": ["cross.combine"],
    "cross_residual.norm": ["cross.norm"],
    "feedforward.expand": ["expand"],
    "feedforward.contract": ["contract"],
    "feedforward_residual.norm": ["feedforward.norm"],
}

# Settings of models that the other libraries support.
_SUPPORTED = {
    "ffn_type": "linear",
    "key_dim": None,
    "norm": "layer",
    "positional_encoding": "sinusoidal",
    "final_norm": None,
    "scale_embedding": True,
    "output_bias": False,
    "decoder_start_token": "bos",
}


def require_supported(config: Mapping[str, Any], **more: str) -> None:
    """Exit with a message if a library does not support a model's settings."""
    for name, value in (_SUPPORTED | more).items():
        if config[name] != value:
            sys.exit(f"{name}={config[name]} is not supported, only {name}={value}")


def read_weights(path: Path) -> Weights:
    """Read weights that are stored as arrays."""
    with np.load(path) as arrays:
        return {name: torch.from_numpy(arrays[name]) for name in arrays}


@dataclass(frozen=True)
class Stack:
    """Names of an encoder or decoder stack in another library."""

    blocks: str
    norm: str  # after the last block
    layers: Mapping[str, str]  # in a block


def rename_weights(ours: Weights, *, encoder: Stack, decoder: Stack) -> Weights:
    """The weights of all blocks and final norms under another library's names."""
    stacks = {"encoder": encoder, "decoder": decoder}
    weights: Weights = {}
    for name, array in ours.items():
        first, *path, kind = name.split(".")  # encoder.blocks.0.attention.project.weight
        if path[:1] == ["blocks"]:
            stack = stacks[first]
            for layer, rows in _parts(".".join(path[2:]), array):
                weights[f"{stack.blocks}.{path[1]}.{stack.layers[layer]}.{kind}"] = rows
        elif path == ["norm"]:
            weights[f"{stacks[first].norm}.{kind}"] = array
    return weights


def _parts(layer: str, array: Tensor) -> Iterator[tuple[str, Tensor]]:
    names = _FUSED[layer]
    rows = len(array) // len(names)
    for number, name in enumerate(names):
        yield name, array[number * rows : (number + 1) * rows]


def embedding_tables(ours: Weights) -> tuple[Tensor, Tensor, Tensor]:
    """Source embeddings, target embeddings and output weights; tied ones are identical."""
    source = ours["source_embedding.table.weight"]
    target = ours.get("target_embedding.table.weight", source)
    return source, target, ours.get("projection.weight", target)


def position_table(config: Mapping[str, Any], length: int) -> NDArray[np.float32]:
    """Regard's sinusoidal positions (length, d_model); libraries differ in frequency and order."""
    width = config["d_model"]
    angles = np.arange(length)[:, None] * 10000.0 ** (-np.arange(0, width, 2) / width)
    both = [np.sin(angles), np.cos(angles)]
    if config["sinusoid_layout"] == "halves":
        return np.concatenate(both, 1).astype(np.float32)
    return np.stack(both, -1).reshape(length, width).astype(np.float32)
