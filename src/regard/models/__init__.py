"""One file, one kind of model, all with the same anatomy. Their names are in this literal dict."""

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
from regard.models.size import WithoutNumbers, parameter_count, refuse_too_large
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


def unset_model(config: ModelConfig, vocabulary: Vocabulary) -> Model:
    """A model of this shape, whose weights are still to be copied into it."""
    with WithoutNumbers():
        return new_model(config, vocabulary)


def shape_only(config: ModelConfig, vocabulary: Vocabulary) -> Model:
    """A model whose weights take no memory: names, shapes and types are known."""
    with torch.device("meta"), WithoutNumbers():
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
