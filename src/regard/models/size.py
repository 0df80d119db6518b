"""How large a model would be, before it is built, and a refusal of one that cannot fit.

A model is built on PyTorch's `meta` device, where tensors have shapes and no numbers, with one and
two layers of each stack; every further layer is as large as the second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.memory import refuse_beyond
from regard.models.base import ModelConfig
from regard.models.protocol import Vocabulary

Builder = Callable[[Any, Vocabulary], nn.Module]
_ADVICE = (
    "Choose a smaller model.width, model.feedforward_width, model.max_positions or vocabulary, or "
    "fewer layers."
)


_RANDOM = (
    *(Tensor.normal_, Tensor.uniform_),
    *(nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_),
)


class WithoutNumbers(TorchFunctionMode):
    """Leaves out random initialization, which weights from a file would overwrite.

    On `meta`, to draw from a normal distribution imports 900 modules first.
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
    one: dict[str, Any] = dict.fromkeys(stacks, 1)
    count = smallest = _built(build, replace(config, **one), vocabulary)
    for name, layers in stacks.items():
        if layers > 1:
            two = _built(build, replace(config, **one | {name: 2}), vocabulary)
            count += (layers - 1) * (two - smallest)
    return count


def refuse_too_large(build: Builder, config: ModelConfig, vocabulary: Vocabulary) -> None:
    """Say that a model cannot be built in this machine's memory."""
    count = parameter_count(build, config, vocabulary)
    refuse_beyond(count, f"A {config.kind} model with {count:,} parameters", _ADVICE)


def refuse_untrainable(count: int, learning: int, device: torch.device, *, averaged: bool) -> None:
    """Say that so many parameters, of which some learn, cannot be trained on a device.

    One that learns also has a gradient and Adam's two averages; `averaged`: all of them have a
    moving average.
    """
    floats = count * (2 if averaged else 1) + 3 * learning
    refuse_beyond(floats, f"Training {learning:,} of {count:,} parameters", _ADVICE, device)


def _built(build: Builder, config: ModelConfig, vocabulary: Vocabulary) -> int:
    with torch.device("meta"), WithoutNumbers():
        return sum(weight.numel() for weight in build(config, vocabulary).parameters())
