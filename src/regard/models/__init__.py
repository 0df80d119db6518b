"""One file, one kind of model, all with the same anatomy. Their names are in this literal dict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from regard.config import OneOf
from regard.models.base import Model, ModelConfig
from regard.models.causal import Causal, CausalConfig
from regard.models.classifier import ClassifierConfig, ClassifierModel
from regard.models.convolutional import Convolutional, ConvolutionalConfig
from regard.models.masked import Masked, MaskedConfig
from regard.models.nonautoregressive import NonAutoregressive, NonAutoregressiveConfig
from regard.models.permuted import Permuted, PermutedConfig
from regard.models.protocol import Vocabulary
from regard.models.recurrent import Recurrent, RecurrentConfig
from regard.models.size import refuse_too_large
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
SHAPES = OneOf(tuple(config for config, _ in ARCHITECTURES.values()))


def new_model(config: ModelConfig, vocabulary: Vocabulary) -> Model:
    """A model of this shape, with fresh weights; one that cannot fit into memory is refused."""
    _, model_class = ARCHITECTURES[config.kind]
    refuse_too_large(model_class, config, vocabulary)
    return model_class(config, vocabulary)


__all__ = [
    "ARCHITECTURES",
    "SHAPES",
    "XL",
    "Causal",
    "CausalConfig",
    "ClassifierConfig",
    "ClassifierModel",
    "Convolutional",
    "ConvolutionalConfig",
    "Masked",
    "MaskedConfig",
    "Model",
    "ModelConfig",
    "NonAutoregressive",
    "NonAutoregressiveConfig",
    "Permuted",
    "PermutedConfig",
    "Recurrent",
    "RecurrentConfig",
    "TaggerConfig",
    "TaggerModel",
    "Transformer",
    "TransformerConfig",
    "Unilm",
    "UnilmConfig",
    "XLConfig",
    "new_model",
]
