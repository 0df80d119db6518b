"""Groups of parameters: freezing parts of a model, and layer-wise learning rate decay.

A model consists of embeddings, an encoder, perhaps a decoder, and a head. Blocks of a stack are
counted from the bottom; in recurrent cells, they are layers.
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
class ParameterLocation:
    """The part and block of a model that a parameter belongs to."""

    part: str  # "embeddings", "encoder", "decoder", or the name of a head
    block: int | None = None  # of a stack; None outside of blocks

    @staticmethod
    def of(name: str) -> ParameterLocation:
        """The location of a parameter, by its name."""
        part, _, _ = name.partition(".")
        if part.endswith("embedding"):
            return ParameterLocation("embeddings")
        match = _BLOCK.search(name)
        return ParameterLocation(part, int(match[1] or match[2]) if match else None)


def freeze(model: nn.Module, parts: Collection[Part], first_blocks: int) -> None:
    """Freeze these parts, and the first blocks of each stack."""
    locations = {name: ParameterLocation.of(name) for name, _ in model.named_parameters()}
    missing = sorted({*parts} - {location.part for location in locations.values()})
    if missing:
        raise ConfigError(
            f"training.freeze contains {missing[0]}, which this model does not have. Remove it."
        )
    blocks = max(
        0 if location.block is None else location.block + 1 for location in locations.values()
    )
    if first_blocks > blocks:
        raise ConfigError(
            f"training.freeze_layers is {first_blocks}, but must be at most {blocks}, the number "
            "of blocks of this model."
        )
    for name, weights in model.named_parameters():
        location = locations[name]
        is_first = location.block is not None and location.block < first_blocks
        if is_first or location.part in parts:
            weights.requires_grad_(False)
    if not any(weights.requires_grad for weights in model.parameters()):
        raise ConfigError(
            "training.freeze and training.freeze_layers leave nothing to train. Freeze less, or "
            "use the model as it is."
        )


def learning_rate_factors(names: Iterable[str], decay: float) -> dict[str, float]:
    """Layer-wise learning rate decay: `decay^n` for a block that is n blocks below the top.

    Embeddings count as below the first block of the highest stack; other parameters get 1.
    """
    locations = {name: ParameterLocation.of(name) for name in names}
    heights: dict[str, int] = {}
    for location in locations.values():
        if location.block is not None:
            heights[location.part] = max(heights.get(location.part, 0), location.block + 1)
    return {name: decay ** _depth(location, heights) for name, location in locations.items()}


def _depth(location: ParameterLocation, heights: dict[str, int]) -> int:
    """The number of blocks between a parameter and the top of its stack."""
    if location.part == "embeddings":
        return max(heights.values(), default=0)
    return 0 if location.block is None else heights[location.part] - 1 - location.block
