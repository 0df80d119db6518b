"""Low-rank adapters, LoRA (Hu et al., 2021, arXiv:2106.09685).

    W' = W + alpha / rank * B A         W (E, D) stays as it is; A (rank, D) and B (E, rank) learn

B begins with zeros, so an adapted model begins as the one that it adapts. Whoever reads the weight
of an adapted layer reads W', so no kernel, packed product or recorded update can miss it; and to
merge is to keep what is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from regard.attention.linear import Linear
from regard.attention.multihead import Attention
from regard.bounds import WIDTH, Ge, Le
from regard.config import Doc, Settings
from regard.errors import ConfigError
from regard.layers.dropout import Dropout
from regard.layers.gated import ConvolutionalBlock

Parts = dict[str, int]  # what a product makes, and how many rows of its weight that takes
_WHOLE, _QUERIES_VALUES = "whole", ("query", "value")


@dataclass(frozen=True)
class LoraConfig(Settings):
    """Adapters that learn in place of the weights."""

    rank: Annotated[
        int,
        Doc("rank of what is added to weights, which stay as they are; 0: no adapters"),
        Ge(0),
        WIDTH,
    ] = 0
    alpha: Annotated[float, Doc("what is added counts alpha / rank times"), Ge(0), WIDTH] = 16.0
    dropout: Annotated[
        float, Doc("share of its inputs that each pass hides from an adapter"), Ge(0), Le(0.99)
    ] = 0.0
    layers: Annotated[
        Literal["queries_values", "attention", "all"],
        Doc("what is adapted: queries and values, all of attention, or all linear layers"),
    ] = "queries_values"

    def takes(self, part: str) -> bool:
        """Whether this part of a layer is adapted."""
        if self.layers == "queries_values":
            return part in _QUERIES_VALUES
        return self.layers == "all" or part != _WHOLE


class LowRank(nn.Module):
    """`B A`, for some rows of a weight."""

    def __init__(self, rows: Tensor, rank: int) -> None:
        super().__init__()
        self.down = nn.Parameter(rows.new_empty(rank, rows.shape[1]))
        self.up = nn.Parameter(rows.new_zeros(rows.shape[0], rank))
        nn.init.normal_(self.down, std=rows.shape[1] ** -0.5)


class AdaptedLinear(Linear):
    """A linear layer with adapters: one, or one for each part of a packed product.

    An input that dropout hides is hidden for all tokens of a pass: it is a column of A.
    """

    def __init__(self, layer: nn.Linear, parts: Parts, config: LoraConfig) -> None:
        nn.Module.__init__(self)  # a linear layer's own would want a weight
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.frozen, self.bias = layer.weight, layer.bias
        rows = dict(zip(parts, layer.weight.split([*parts.values()]), strict=True))
        self.adapters = nn.ModuleDict(
            {name: LowRank(part, config.rank) for name, part in rows.items() if config.takes(name)}
        )
        self.dropout = Dropout(config.dropout)
        self._parts = parts
        self._scale = config.alpha / config.rank
        self.train(layer.training)

    @property
    def weight(self) -> Tensor:  # type: ignore[override]  # which nobody sets
        """W': in the precision of W, whatever products are computed in."""
        with torch.autocast(self.frozen.device.type, enabled=False):
            rows = zip(self._parts, self.frozen.split([*self._parts.values()]), strict=True)
            adapted = [self._adapted(name, part) for name, part in rows]
        return torch.cat(adapted) if len(adapted) > 1 else adapted[0]

    def _adapted(self, name: str, rows: Tensor) -> Tensor:
        if name not in self.adapters:
            return rows
        adapter = self.adapters[name]
        assert isinstance(adapter, LowRank)
        inputs = self.dropout(adapter.down.new_ones(self.in_features))
        return torch.addmm(rows, adapter.up, adapter.down * inputs, alpha=self._scale)

    def merged(self) -> Linear:
        """A layer like any other, with the sum for a weight."""
        layer = Linear(self.in_features, self.out_features, device="meta")
        layer.weight, layer.bias = nn.Parameter(self.eval().weight.detach()), self.bias
        return layer


def adapt(model: nn.Module, config: LoraConfig, fresh: Collection[str] = ()) -> None:
    """From now on adapters learn, and weights of these names; all others stay as they are.

    Fresh weights are those that no trained model had, such as those of a new head.
    """
    for name, weights in model.named_parameters():
        weights.requires_grad_(name in fresh)

    def adapted(layer: nn.Linear, parts: Parts) -> nn.Linear | None:
        chosen = not layer.weight.requires_grad and any(map(config.takes, parts))
        return AdaptedLinear(layer, parts, config) if chosen else None

    if not _replace(model, adapted):
        more = "Set training.lora.layers=all, or train" if config.layers != "all" else "Train"
        raise ConfigError(
            f"training.lora.layers={config.layers}: this model has no such layers. {more} all its "
            "weights with training.lora.rank=0."
        )


def is_adapted(model: nn.Module) -> bool:
    """Whether a model has adapters."""
    return any(isinstance(module, AdaptedLinear) for module in model.modules())


def merge(model: nn.Module) -> None:
    """Make an adapted model one like any other, that computes the same."""
    _replace(model, lambda layer, _: layer.merged() if isinstance(layer, AdaptedLinear) else None)


def _replace(model: nn.Module, replacement: Callable[[nn.Linear, Parts], nn.Linear | None]) -> bool:
    """Put other layers in the place of some; whether there were any."""
    found = [
        (module, name, new)
        for module in model.modules()
        for name, layer, parts in _layers(module)
        if (new := replacement(layer, parts)) is not None
    ]
    for module, name, new in found:
        setattr(module, name, new)
    return bool(found)


def _layers(module: nn.Module) -> Iterator[tuple[str, nn.Linear, Parts]]:
    """The linear layers right below a module: names, and what each makes."""
    named = _parts_of_attention(module)
    for name, layer in module.named_children():
        if isinstance(layer, nn.Linear):
            yield name, layer, named.get(name, {_WHOLE: layer.out_features})


def _parts_of_attention(module: nn.Module) -> dict[str, Parts]:
    """By the names of its layers, what a module of attention makes with each."""
    if isinstance(module, Attention):
        return module.parts
    if isinstance(module, ConvolutionalBlock):
        width = module.query.out_features
        return {"query": {"query": width}, "combine": {"output": width}}
    return {}
