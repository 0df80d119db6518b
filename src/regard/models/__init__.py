"""The registry of model kinds: their settings and classes, one module for each kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import torch

from regard.bounds import Ge, Le
from regard.config import Doc, OneOf
from regard.data.batch import Batch
from regard.data.ragged import Lengths, Ragged
from regard.errors import ConfigError
from regard.models.base import AutoregressiveModel, Model, ModelConfig, PairModel
from regard.models.causal import Causal, CausalConfig
from regard.models.classifier import ClassifierConfig, ClassifierModel
from regard.models.convolutional import Convolutional, ConvolutionalConfig
from regard.models.masked import Masked, MaskedConfig
from regard.models.nonautoregressive import NonAutoregressive, NonAutoregressiveConfig
from regard.models.permuted import Permuted, PermutedConfig
from regard.models.protocol import Predictions, Vocabulary
from regard.models.recurrent import Recurrent, RecurrentConfig
from regard.models.size import SkipRandomInit, parameter_count, refuse_too_large
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
MODEL_CONFIGS = OneOf(lambda: tuple(config for config, _ in ARCHITECTURES.values()))


def register_model(config: type[ModelConfig], model: Callable[[Any, Vocabulary], Model]) -> None:
    """Register a model kind: its settings, whose default of `kind` is its name, and its class."""
    kind = str(next(field.default for field in fields(config) if field.name == "kind"))
    if not kind.isidentifier():
        raise ConfigError(
            f"{config.__name__}.kind is {kind!r}. Give it a default that names the kind, such as "
            '`kind: Literal["mine"] = "mine"`.'
        )
    required = ("forward", "start", "step") if config.autoregressive else ("forward",)
    missing = [name for name in required if _is_abstract(model, name)]
    if missing:
        raise ConfigError(
            f"The class of model kind {kind!r} has no {' and no '.join(missing)}. Add it."
        )
    known = ARCHITECTURES.get(kind)
    if known is not None and known[0].__qualname__ != config.__qualname__:
        raise ConfigError(f"Model kind {kind!r} is already registered. Choose another name.")
    ARCHITECTURES[kind] = config, model


def _is_abstract(model: Any, method: str) -> bool:
    """Whether a method of a class is abstract."""
    return getattr(getattr(model, method, None), "__isabstractmethod__", False)


def uninitialized_model(config: ModelConfig, vocabulary: Vocabulary) -> Model:
    """A model without initialized weights, which are to be loaded."""
    with SkipRandomInit():
        return new_model(config, vocabulary)


def meta_model(config: ModelConfig, vocabulary: Vocabulary) -> Model:
    """A model on the meta device: names, shapes and types of weights without data."""
    with torch.device("meta"), SkipRandomInit():
        return new_model(config, vocabulary)


def new_model(config: ModelConfig, vocabulary: Vocabulary) -> Model:
    """A randomly initialized model; raises an error if it does not fit into memory."""
    _, model_class = ARCHITECTURES[config.kind]
    refuse_too_large(model_class, config, vocabulary)
    return model_class(config, vocabulary)


def count_parameters(config: ModelConfig, vocabulary: Vocabulary) -> int:
    """The number of parameters of a model, without building it."""
    return parameter_count(ARCHITECTURES[config.kind][1], config, vocabulary)


__all__ = [
    "ARCHITECTURES",
    "MODEL_CONFIGS",
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
    "count_parameters",
    "meta_model",
    "new_model",
    "register_model",
    "uninitialized_model",
]
