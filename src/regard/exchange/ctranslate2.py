"""Export to CTranslate2, a C++ inference library optimized for CPUs.

    FOLDER/config.json          a model folder of regard without weights
    FOLDER/tokenizer.model      the tokenizer, including its normalization
    FOLDER/ctranslate2/         the model: ctranslate2.Translator("FOLDER/ctranslate2")

Weights are copied into CTranslate2's Transformer specification. Settings whose defaults differ in
CTranslate2 are set explicitly.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.attention.positions import sinusoids
from regard.data.shortlist import Shortlist
from regard.errors import ModelError
from regard.exchange.ctranslate2_files import CTRANSLATE2_FOLDER, write_vmap
from regard.exchange.digests import write_digests
from regard.exchange.normalizer import write_tokenizers_with_normalizer
from regard.exchange.requirements import raise_problems, require_packages, unsupported_settings
from regard.files import atomic_folder
from regard.layers.embedding import Embedding
from regard.models.base import Model, ModelConfig
from regard.models.folder import ModelFolder
from regard.models.transformer import Transformer, TransformerConfig
from regard.text.special import SPECIAL

WeightPrecision = Literal["float32", "int8", "int16", "float16", "bfloat16"]
_MAX_POSITIONS = 2**16  # rows of a position table; more would take gigabytes
_MIN_POSITIONS = 1026  # CTranslate2 truncates inputs to 1,024 tokens by default, plus BOS and EOS
_SUPPORTED = {
    "attention.score": ["scaled_dot", "dot"],
    "positional_encoding": ["sinusoidal", "learned", "rotary", "none"],
    "norm": ["layer", "rms"],
    "ffn_type": ["linear", "gated"],
}
_LAYERS = {  # layers of a block by CTranslate2's name
    "attention_residual.norm": "self_attention.layer_norm",
    "attention.project": "self_attention.linear.0",  # queries, keys and values
    "attention.combine": "self_attention.linear.1",
    "cross_residual.norm": "attention.layer_norm",
    "cross.query": "attention.linear.0",
    "cross.memory": "attention.linear.1",  # keys and values
    "cross.combine": "attention.linear.2",
    "feedforward_residual.norm": "ffn.layer_norm",
    "feedforward.expand": "ffn.linear_0",
    "feedforward.gate": "ffn.linear_0_noact",
    "feedforward.contract": "ffn.linear_1",
}


def export_problems(config: ModelConfig) -> Iterator[str]:
    """Yield every reason why CTranslate2 does not support this model."""
    if isinstance(config, TransformerConfig):
        yield from unsupported_settings(config, _SUPPORTED)
    else:
        yield f"model.kind is {config.kind}; supported: transformer"


def export(
    folder: ModelFolder,
    model: Model,
    out: Path,
    *,
    precision: WeightPrecision = "float32",
    shortlist: Shortlist | None = None,
) -> None:
    """Write a folder that both CTranslate2 and regard can load.

    A shortlist limits the target tokens by source token.
    """
    with atomic_folder(out) as temporary:
        write_model(
            folder, model, temporary / CTRANSLATE2_FOLDER, precision=precision, shortlist=shortlist
        )
        folder.write(temporary)
        write_tokenizers_with_normalizer(folder.tokenizers, temporary)
        write_digests(temporary)


def write_model(
    folder: ModelFolder,
    model: Model,
    out: Path,
    *,
    precision: WeightPrecision = "float32",
    shortlist: Shortlist | None = None,
    source_start: str | None = None,
) -> None:
    """Write the files that CTranslate2 loads.

    `source_start` is a token that CTranslate2 adds before each source, by default none.
    """
    require_packages("ctranslate2", extra="fast")
    raise_problems(export_problems(model.config), "CTranslate2 does not support this model")
    assert isinstance(model, Transformer), "other models are refused above"
    if precision == "float16":
        _refuse_overflow(model)
    max_length = _max_positions(model.config, folder.data_statistics.longest_source)
    spec = _build_spec(model, max_length)
    source, target = (
        side.ids_to_tokens(range(side.vocab_size))
        for side in (folder.tokenizers.source, folder.tokenizers.target)
    )
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.config.unk_token = target[SPECIAL.unk]
    spec.config.bos_token = target[SPECIAL.bos]
    spec.config.eos_token = target[SPECIAL.eos]
    spec.config.decoder_start_token = target[model.config.decoder_start_id]
    spec.config.add_source_eos = True
    if source_start is not None:  # CTranslate2 knows BOS only; the decoder has a token of its own
        spec.config.add_source_bos, spec.config.bos_token = True, source_start
    layer_norm = model.config.norm == "layer"
    # PyTorch's default epsilons.
    spec.config.layer_norm_epsilon = 1e-5 if layer_norm else torch.finfo(torch.float32).eps
    spec.config.add_attribute("max_length", max_length)  # read by regard only
    spec.validate()
    spec.optimize(quantization=precision)
    out.mkdir(parents=True, exist_ok=True)
    spec.save(str(out))
    if shortlist is not None:
        write_vmap(shortlist, folder.tokenizers, out)


def _refuse_overflow(model: Transformer) -> None:
    """Raise an error if a weight exceeds the range of float16."""
    largest = torch.finfo(torch.float16).max
    for name, weight in model.named_parameters():
        if weight.abs().max() > largest:
            raise ModelError(
                f"The weight {name} has values up to {weight.abs().max():.4g}, but the maximum of "
                f"float16 is {largest:.0f}. Use --precision bfloat16 or float32."
            )


def _max_positions(config: TransformerConfig, longest_source: int) -> int | None:
    """Return the maximum sequence length of the exported model; None: unlimited."""
    if config.positional_encoding == "rotary":
        return None
    if config.positional_encoding == "learned":
        return config.max_positions
    return max(_MIN_POSITIONS, min(4 * longest_source, _MAX_POSITIONS))


def _build_spec(model: Transformer, max_length: int | None) -> Any:
    from ctranslate2 import specs

    config = model.config
    activations = {
        "relu": specs.Activation.RELU,
        "gelu": specs.Activation.GELU,
        "gelu_tanh": specs.Activation.GELUTanh,
        "silu": specs.Activation.SWISH,
    }
    shape = {
        "pre_norm": True,  # creates the final norm; `_copy_blocks` sets the actual order
        "no_final_norm": isinstance(model.encoder.norm, nn.Identity),
        "activation": activations[config.activation],
        "ffn_glu": config.ffn_type == "gated",
        "rms_norm": config.norm == "rms",
        "rotary_dim": 0
        if config.positional_encoding == "rotary"
        else None,  # 0: all dimensions of a head
        "rotary_interleave": True,
    }
    encoder = specs.TransformerEncoderSpec(config.num_encoder_layers, config.num_heads, **shape)
    decoder = specs.TransformerDecoderSpec(config.num_decoder_layers, config.num_heads, **shape)
    for stack_spec, table, stack, embedding in (
        (encoder, encoder.embeddings[0], model.encoder, model.source_embedding),
        (decoder, decoder.embeddings, model.decoder, model.target_embedding),
    ):
        table.weight = _to_array(embedding.table.weight)
        stack_spec.scale_embeddings = config.scale_embedding
        if max_length is not None:
            stack_spec.position_encodings.encodings = _position_table(embedding, config, max_length)
        _copy_blocks(stack_spec, stack, config)
    decoder.projection.weight = _to_array(model.projection.weight)
    if model.projection.bias is not None:
        decoder.projection.bias = _to_array(model.projection.bias)
    return specs.TransformerSpec(encoder, decoder)


def _position_table(
    embedding: Embedding, config: TransformerConfig, length: int
) -> NDArray[np.float32]:
    """Return the position table, since CTranslate2's default has another sinusoid layout."""
    if config.positional_encoding == "learned":
        return _to_array(embedding.positions.table.weight)  # type: ignore[union-attr, arg-type]
    if config.positional_encoding == "none":
        return np.zeros((length, config.d_model), np.float32)
    return _to_array(sinusoids(length, config.d_model, config.sinusoid_layout))


def _copy_blocks(spec: Any, stack: Any, config: TransformerConfig) -> None:
    """Copy the blocks of the encoder or decoder, and the final norm."""
    spec.pre_norm = config.norm_order == "pre"
    if not isinstance(stack.norm, nn.Identity):
        _copy_layer(spec.layer_norm, stack.norm)
    for layer, block in zip(spec.layer, stack.blocks, strict=True):
        for name, module in block.named_modules():
            if name in _LAYERS:
                *parts, last = _LAYERS[name].split(".")
                part = attrgetter(".".join(parts))(layer)
                _copy_layer(part[int(last)] if last.isdigit() else getattr(part, last), module)
        if config.attention.score == "dot":  # not divided by sqrt(d)
            for attention in ("self_attention", "attention"):
                if hasattr(layer, attention):
                    getattr(layer, attention).queries_scale = np.float32(1)


def _copy_layer(spec: Any, layer: nn.Linear | nn.LayerNorm | nn.RMSNorm) -> None:
    """Copy the weights of a linear layer or a norm."""
    if isinstance(layer, nn.Linear):
        spec.weight, spec.bias = _to_array(layer.weight), _to_array(layer.bias)
        return
    spec.gamma = _to_array(layer.weight)
    if isinstance(layer, nn.LayerNorm):
        spec.beta = _to_array(layer.bias)


def _to_array(tensor: Tensor) -> NDArray[np.float32]:
    """Copy a tensor, since CTranslate2 quantizes in place."""
    return np.array(tensor.detach().float().cpu().numpy(), copy=True)
