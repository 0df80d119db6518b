"""One file, one kind of model, all with the same anatomy. Their names are in this literal dict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.bounds import Ge as Ge
from regard.bounds import Le as Le
from regard.config import Doc as Doc
from regard.config import OneOf
from regard.data.batch import Batch as Batch
from regard.data.ragged import Lengths as Lengths
from regard.data.ragged import Ragged as Ragged
from regard.errors import ConfigError
from regard.models.base import AutoregressiveModel as AutoregressiveModel
from regard.models.base import Model, ModelConfig
from regard.models.base import PairModel as PairModel
from regard.models.causal import Causal, CausalConfig
from regard.models.classifier import ClassifierConfig, ClassifierModel
from regard.models.convolutional import Convolutional, ConvolutionalConfig
from regard.models.masked import Masked, MaskedConfig
from regard.models.nonautoregressive import NonAutoregressive, NonAutoregressiveConfig
from regard.models.permuted import Permuted, PermutedConfig
from regard.models.protocol import Predictions as Predictions
from regard.models.protocol import Vocabulary
from regard.models.recurrent import Recurrent, RecurrentConfig
from regard.models.size import parameter_count, refuse_too_large
from regard.models.tagger import TaggerConfig, TaggerModel
from regard.models.transformer import Transformer, TransformerConfig
from regard.models.unilm import Unilm, UnilmConfig
from regard.models.xl import XL, XLConfig

ARCHITECTURES: dict[str, tuple[type[ModelConfig], Callable[[Any, Vocabulary], Model]]] = {
    "transformer": (TransformerConfig, Transformer),
    "recurrent": (RecurrentConfig, Recurrent),
    "convolutional": (ConvolutionalConfig, Convolutional),
    "nonautoregressive": (NonAutoregressiveConfig, NonAutoregressive),
    "causal": (CausalConfig, Causal),
    "masked": (MaskedConfig, Masked),
    "unilm": (UnilmConfig, Unilm),
    "xl": (XLConfig, XL),
    "permuted": (PermutedConfig, Permuted),
    "tagger": (TaggerConfig, TaggerModel),
    "classifier": (ClassifierConfig, ClassifierModel),
}
SHAPES = OneOf(lambda: tuple(config for config, _ in ARCHITECTURES.values()))


def register_model(config: type[ModelConfig], model: Callable[[Any, Vocabulary], Model]) -> None:
    """Add a kind of model: its settings, whose default of `kind` is its name, and its class."""
    kind = str(next(field.default for field in fields(config) if field.name == "kind"))
    if not kind.isidentifier():
        raise ConfigError(
            f"{config.__name__}.kind is {kind!r}. Give it a default that names the kind, such as "
            '`kind: Literal["mine"] = "mine"`.'
        )
    needed = ("forward", "start", "step") if config.autoregressive else ("forward",)
    missing = [name for name in needed if _is_abstract(model, name)]
    if missing:
        raise ConfigError(f"The model of kind {kind!r} has no {' and no '.join(missing)}. Add it.")
    known = ARCHITECTURES.get(kind)
    if known is not None and known[0].__qualname__ != config.__qualname__:
        raise ConfigError(f"There is a model kind {kind!r} already. Choose another name.")
    ARCHITECTURES[kind] = config, model


def _is_abstract(model: Any, method: str) -> bool:
    """Whether a class leaves a method to its subclasses."""
    return getattr(getattr(model, method, None), "__isabstractmethod__", False)


_RANDOM = (
    *(Tensor.normal_, Tensor.uniform_),
    *(nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_),
)


class _WithoutNumbers(TorchFunctionMode):
    """Leaves out random initialization, which weights from a file would overwrite."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _RANDOM:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def unset_model(config: ModelConfig, vocabulary: Vocabulary) -> Model:
    """A model of this shape, whose weights are still to be copied into it."""
    with _WithoutNumbers():
        return new_model(config, vocabulary)


def shape_only(config: ModelConfig, vocabulary: Vocabulary) -> Model:
    """A model whose weights take no memory: names, shapes and types are known."""
    with torch.device("meta"), _WithoutNumbers():
        return new_model(config, vocabulary)


def new_model(config: ModelConfig, vocabulary: Vocabulary) -> Model:
    """A model of this shape, with fresh weights; one that cannot fit into memory is refused."""
    _, model_class = ARCHITECTURES[config.kind]
    refuse_too_large(model_class, config, vocabulary)
    return model_class(config, vocabulary)


def size_of(config: ModelConfig, vocabulary: Vocabulary) -> int:
    """How many parameters such a model has; it is not built."""
    return parameter_count(ARCHITECTURES[config.kind][1], config, vocabulary)


__all__ = [
    "ARCHITECTURES",
    "SHAPES",
    "XL",
    "AutoregressiveModel",
    "Batch",
    "Causal",
    "CausalConfig",
    "ClassifierConfig",
    "ClassifierModel",
    "Convolutional",
    "ConvolutionalConfig",
    "Doc",
    "Ge",
    "Le",
    "Lengths",
    "Masked",
    "MaskedConfig",
    "Model",
    "ModelConfig",
    "NonAutoregressive",
    "NonAutoregressiveConfig",
    "PairModel",
    "Permuted",
    "PermutedConfig",
    "Predictions",
    "Ragged",
    "Recurrent",
    "RecurrentConfig",
    "TaggerConfig",
    "TaggerModel",
    "Transformer",
    "TransformerConfig",
    "Unilm",
    "UnilmConfig",
    "Vocabulary",
    "XLConfig",
    "new_model",
    "register_model",
    "shape_only",
    "size_of",
    "unset_model",
]
