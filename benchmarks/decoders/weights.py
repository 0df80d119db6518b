"""Our weights under the names of others.

Each layer of a block gets a name that all can understand; a table then says what another library
calls it.
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
# Our layers, and what lies in each, one below the other.
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

# What a model must be like so that others have all of its parts.
_USUAL = {
    "feedforward": "linear",
    "key_width": None,
    "norm": "layer",
    "positions": "sinusoidal",
    "final_norm": None,
    "scale_embedding": True,
    "output_bias": False,
    "start_token": "start",
}


def require(config: Mapping[str, Any], **more: str) -> None:
    """End the process, with the reason, if a model has what a library has not."""
    for name, value in (_USUAL | more).items():
        if config[name] != value:
            sys.exit(f"it has no {name} {config[name]}, only {value}")


def read(path: Path) -> Weights:
    """Weights that were kept as arrays."""
    with np.load(path) as kept:
        return {name: torch.from_numpy(kept[name]) for name in kept}


@dataclass(frozen=True)
class Stack:
    """What another library calls the blocks of an encoder or decoder."""

    blocks: str
    norm: str  # after the last block
    layers: Mapping[str, str]  # in a block


def renamed(ours: Weights, *, encoder: Stack, decoder: Stack) -> Weights:
    """The weights of all blocks, and of the norms after them."""
    stacks = {"encoder": encoder, "decoder": decoder}
    found: Weights = {}
    for name, array in ours.items():
        first, *path, kind = name.split(".")  # encoder.blocks.0.attention.project.weight
        if path[:1] == ["blocks"]:
            stack = stacks[first]
            for layer, rows in _parts(".".join(path[2:]), array):
                found[f"{stack.blocks}.{path[1]}.{stack.layers[layer]}.{kind}"] = rows
        elif path == ["norm"]:
            found[f"{stacks[first].norm}.{kind}"] = array
    return found


def _parts(layer: str, array: Tensor) -> Iterator[tuple[str, Tensor]]:
    names = _FUSED[layer]
    rows = len(array) // len(names)
    for number, name in enumerate(names):
        yield name, array[number * rows : (number + 1) * rows]


def tables(ours: Weights) -> tuple[Tensor, Tensor, Tensor]:
    """The embeddings of source and target, and the output's weights; shared ones are the same."""
    source = ours["source_embedding.table.weight"]
    target = ours.get("target_embedding.table.weight", source)
    return source, target, ours.get("projection.weight", target)


def positions(config: Mapping[str, Any], length: int) -> NDArray[np.float32]:
    """What regard adds to embeddings: libraries differ in rates and order. (length, D)"""
    width = config["width"]
    angles = np.arange(length)[:, None] * 10000.0 ** (-np.arange(0, width, 2) / width)
    both = [np.sin(angles), np.cos(angles)]
    if config["sinusoid_layout"] == "halves":
        return np.concatenate(both, 1).astype(np.float32)
    return np.stack(both, -1).reshape(length, width).astype(np.float32)
