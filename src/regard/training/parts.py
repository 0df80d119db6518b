"""The parts of a model as users know them: what of it stays frozen, and which rates its blocks get.

Every kind of model is embeddings, an encoder, perhaps a decoder, and what stands above them. A
stack's blocks are counted from below; recurrent cells call theirs layers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from torch import nn

from regard.errors import ConfigError

Part = Literal["embeddings", "encoder", "decoder"]
_BLOCK = re.compile(r"\.blocks\.(\d+)\.|_l(\d+)(?:_reverse)?$")


@dataclass(frozen=True)
class Place:
    """Where in a model a weight is."""

    part: str  # "embeddings", "encoder", "decoder", or any other name: what stands above them
    block: int | None = None  # of a stack; None: beside or above the blocks

    @staticmethod
    def of(name: str) -> Place:
        """By its name."""
        part, _, _ = name.partition(".")
        if part.endswith("embedding"):
            return Place("embeddings")
        found = _BLOCK.search(name)
        return Place(part, int(found[1] or found[2]) if found else None)


def freeze(model: nn.Module, parts: Collection[Part], first_blocks: int) -> None:
    """Let these parts stay as they are, and so many first blocks of each stack."""
    places = {name: Place.of(name) for name, _ in model.named_parameters()}
    missing = sorted({*parts} - {place.part for place in places.values()})
    if missing:
        raise ConfigError(f"training.freeze names {missing[0]}, which this model does not have.")
    blocks = max(0 if place.block is None else place.block + 1 for place in places.values())
    if first_blocks > blocks:
        raise ConfigError(
            f"training.freeze_blocks is {first_blocks}, and this model has {blocks} blocks."
        )
    for name, weights in model.named_parameters():
        place = places[name]
        low = place.block is not None and place.block < first_blocks
        if low or place.part in parts:
            weights.requires_grad_(False)
    if not any(weights.requires_grad for weights in model.parameters()):
        raise ConfigError(
            "training.freeze and training.freeze_blocks leave nothing that could learn. Freeze "
            "less, or use the model as it is."
        )


def rate_factors(names: Iterable[str], decay: float) -> dict[str, float]:
    """How much of the rate each weight gets: `decay^n`, n blocks below the top of its stack.

    Embeddings are below the first block of the highest stack; what is no block gets all of it.
    """
    places = {name: Place.of(name) for name in names}
    heights: dict[str, int] = {}
    for place in places.values():
        if place.block is not None:
            heights[place.part] = max(heights.get(place.part, 0), place.block + 1)
    return {name: decay ** _below(place, heights) for name, place in places.items()}


def _below(place: Place, heights: dict[str, int]) -> int:
    """How many blocks above it the top of its stack is."""
    if place.part == "embeddings":
        return max(heights.values(), default=0)
    return 0 if place.block is None else heights[place.part] - 1 - place.block
