"""Parameter counts of models before they are built, and errors for models too large for memory.

Models with one and two layers per stack are built on PyTorch's `meta` device, where tensors have no
data; each further layer is as large as the second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.machine import refuse_out_of_memory
from regard.models.base import ModelConfig
from regard.models.protocol import Vocabulary

Builder = Callable[[Any, Vocabulary], nn.Module]
_ADVICE = (
    "Choose a smaller model.d_model, model.ffn_dim, model.max_positions or vocabulary, or "
    "fewer layers."
)


_RANDOM = (
    *(Tensor.normal_, Tensor.uniform_),
    *(nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_),
)


class SkipRandomInit(TorchFunctionMode):
    """Skips random initialization, for models whose weights are loaded or on the `meta` device.

    On `meta`, the first draw from a normal distribution imports 900 modules.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _RANDOM:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def parameter_count(build: Builder, config: ModelConfig, vocabulary: Vocabulary) -> int:
    """The number of parameters of a model with these settings, shared ones counted once."""
    names = [field.name for field in fields(config) if field.name.endswith("layers")]
    stacks = {name: getattr(config, name) for name in names}
    single: dict[str, Any] = dict.fromkeys(stacks, 1)
    count = smallest = _count_built(build, replace(config, **single), vocabulary)
    for name, layers in stacks.items():
        if layers > 1:
            two = _count_built(build, replace(config, **single | {name: 2}), vocabulary)
            count += (layers - 1) * (two - smallest)
    return count


def refuse_too_large(build: Builder, config: ModelConfig, vocabulary: Vocabulary) -> None:
    """Raise an error if a model does not fit into the memory of this machine."""
    count = parameter_count(build, config, vocabulary)
    refuse_out_of_memory(count, f"A {config.kind} model with {count:,} parameters", _ADVICE)


def refuse_untrainable(count: int, trained: int, device: torch.device, *, averaged: bool) -> None:
    """Raise an error if a model does not fit into the memory of a device in training.

    Trained parameters have a gradient and Adam's two moments; `averaged`: all parameters have a
    moving average.
    """
    floats = count * (2 if averaged else 1) + 3 * trained
    refuse_out_of_memory(floats, f"Training {trained:,} of {count:,} parameters", _ADVICE, device)


def _count_built(build: Builder, config: ModelConfig, vocabulary: Vocabulary) -> int:
    with torch.device("meta"), SkipRandomInit():
        return sum(weight.numel() for weight in build(config, vocabulary).parameters())
