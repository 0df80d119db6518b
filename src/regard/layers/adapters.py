"""Low-rank adapters, LoRA (Hu et al., 2021, arXiv:2106.09685).

    W' = W + alpha / rank * B A         W (E, D) is frozen; A (rank, D) and B (E, rank) are trained

B is initialized with zeros, so that an adapted model starts as its base model. The `weight` of an
adapted layer is W', so that it works with all kernels, packed projections and CUDA graphs; merging
stores W'.
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
from regard.config import Doc, Formerly, Settings
from regard.errors import ConfigError
from regard.layers.dropout import Dropout
from regard.layers.gated import ConvolutionalBlock

Parts = dict[str, int]  # the parts of a packed projection, with the numbers of their features
_WHOLE, _QUERIES_VALUES = "whole", ("query", "value")


@dataclass(frozen=True)
class LoraConfig(Settings):
    """Settings of LoRA adapters."""

    rank: Annotated[
        int,
        Doc("rank of the LoRA adapters; the weights are frozen; 0 disables adapters"),
        Ge(0),
        WIDTH,
    ] = 0
    alpha: Annotated[float, Doc("adapters are scaled by alpha / rank"), Ge(0), WIDTH] = 16.0
    dropout: Annotated[float, Doc("dropout of the inputs of adapters"), Ge(0), Le(0.99)] = 0.0
    target_modules: Annotated[
        Literal["queries_values", "attention", "all"],
        Doc("layers with adapters: queries and values, all of attention, or all linear layers"),
        Formerly("layers"),
    ] = "queries_values"

    def adapts(self, part: str) -> bool:
        """Whether this part of a layer has an adapter."""
        if self.target_modules == "queries_values":
            return part in _QUERIES_VALUES
        return self.target_modules == "all" or part != _WHOLE


class LowRank(nn.Module):
    """`B A`, the low-rank update of some rows of a weight."""

    def __init__(self, rows: Tensor, rank: int) -> None:
        super().__init__()
        self.down = nn.Parameter(rows.new_empty(rank, rows.shape[1]))
        self.up = nn.Parameter(rows.new_zeros(rows.shape[0], rank))
        nn.init.normal_(self.down, std=rows.shape[1] ** -0.5)


class AdaptedLinear(Linear):
    """A linear layer with adapters: one for each part of a packed projection.

    Dropout acts on the columns of A: an input feature is dropped for all tokens of a batch.
    """

    def __init__(self, layer: nn.Linear, parts: Parts, config: LoraConfig) -> None:
        nn.Module.__init__(self)  # `nn.Linear.__init__` would allocate a weight
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.frozen, self.bias = layer.weight, layer.bias
        rows = dict(zip(parts, layer.weight.split([*parts.values()]), strict=True))
        self.adapters = nn.ModuleDict(
            {name: LowRank(part, config.rank) for name, part in rows.items() if config.adapts(name)}
        )
        self.dropout = Dropout(config.dropout)
        self._parts = parts
        self._scale = config.alpha / config.rank
        self.train(layer.training)

    @property
    def weight(self) -> Tensor:  # type: ignore[override]  # read-only
        """W', in the dtype of W."""
        with torch.autocast(self.frozen.device.type, enabled=False):
            rows = zip(self._parts, self.frozen.split([*self._parts.values()]), strict=True)
            adapted = [self._adapted_rows(name, part) for name, part in rows]
        return torch.cat(adapted) if len(adapted) > 1 else adapted[0]

    def _adapted_rows(self, name: str, rows: Tensor) -> Tensor:
        if name not in self.adapters:
            return rows
        adapter = self.adapters[name]
        assert isinstance(adapter, LowRank)
        inputs = self.dropout(adapter.down.new_ones(self.in_features))
        return torch.addmm(rows, adapter.up, adapter.down * inputs, alpha=self._scale)

    def merged(self) -> Linear:
        """A plain linear layer with the weight W'."""
        layer = Linear(self.in_features, self.out_features, device="meta")
        layer.weight, layer.bias = nn.Parameter(self.eval().weight.detach()), self.bias
        return layer


def add_adapters(model: nn.Module, config: LoraConfig, trainable: Collection[str] = ()) -> None:
    """Add adapters to a model and freeze its weights, except those named in `trainable`.

    Trainable are the weights that the base model does not have, such as those of a new head.
    """
    for name, weights in model.named_parameters():
        weights.requires_grad_(name in trainable)

    def make_adapted(layer: nn.Linear, parts: Parts) -> nn.Linear | None:
        matches = not layer.weight.requires_grad and any(map(config.adapts, parts))
        return AdaptedLinear(layer, parts, config) if matches else None

    if not _replace(model, make_adapted):
        more = (
            "Set training.lora.target_modules=all, or train"
            if config.target_modules != "all"
            else "Train"
        )
        raise ConfigError(
            f"training.lora.target_modules is {config.target_modules}, but no layer of this model "
            f"matches. {more} all its weights with training.lora.rank=0."
        )


def is_adapted(model: nn.Module) -> bool:
    """Whether a model has adapters."""
    return any(isinstance(module, AdaptedLinear) for module in model.modules())


def merge_adapters(model: nn.Module) -> None:
    """Replace adapted layers by plain ones that compute the same."""
    _replace(model, lambda layer, _: layer.merged() if isinstance(layer, AdaptedLinear) else None)


def _replace(model: nn.Module, replacement: Callable[[nn.Linear, Parts], nn.Linear | None]) -> bool:
    """Replace layers for which `replacement` returns one; return whether there were any."""
    replaced = [
        (module, name, new)
        for module in model.modules()
        for name, layer, parts in _linear_children(module)
        if (new := replacement(layer, parts)) is not None
    ]
    for module, name, new in replaced:
        setattr(module, name, new)
    return bool(replaced)


def _linear_children(module: nn.Module) -> Iterator[tuple[str, nn.Linear, Parts]]:
    """The linear children of a module: name, layer and parts."""
    parts_by_name = _attention_parts(module)
    for name, layer in module.named_children():
        if isinstance(layer, nn.Linear):
            yield name, layer, parts_by_name.get(name, {_WHOLE: layer.out_features})


def _attention_parts(module: nn.Module) -> dict[str, Parts]:
    """The parts of each linear layer of an attention module, by layer name."""
    if isinstance(module, Attention):
        return module.parts
    if isinstance(module, ConvolutionalBlock):
        d_model = module.query.out_features
        return {"query": {"query": d_model}, "combine": {"output": d_model}}
    return {}
