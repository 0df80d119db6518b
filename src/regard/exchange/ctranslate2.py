"""To CTranslate2, an engine in C++ that is at home on CPUs.

    FOLDER/config.json          what regard reads, with the tokenizer beside it: a model folder
    FOLDER/tokenizer.model      without weights of its own; it normalizes text by itself
    FOLDER/ctranslate2/         what CTranslate2 reads: ctranslate2.Translator("FOLDER/ctranslate2")

A model becomes the specification that CTranslate2 publishes for Transformers, array by array, and
nothing is pickled. Whatever CTranslate2 would do in its own way by default is said explicitly.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
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
from regard.exchange.ctranslate2_files import write_vmap
from regard.exchange.digests import write_digests
from regard.exchange.normalizer import write_self_normalizing
from regard.exchange.requirements import need, refuse, unknown_settings
from regard.files import whole_folder
from regard.layers.embedding import Embedding
from regard.models.base import Model, ModelConfig
from regard.models.folder import ModelFolder
from regard.models.transformer import Transformer, TransformerConfig
from regard.text.special import SPECIAL

WeightPrecision = Literal["float32", "int8", "int16", "float16", "bfloat16"]
ENGINE = "ctranslate2"  # the folder in the folder
_LONGEST = 2**16  # places of a table; those of longer texts would take gigabytes
_INPUT = 1026  # CTranslate2 cuts what others give it at 1,024 tokens; and the marks
_KNOWN = {
    "attention.score": ["scaled_dot", "dot"],
    "positions": ["sinusoidal", "learned", "rotary", "none"],
    "norm": ["layer", "rms"],
    "feedforward": ["linear", "gated"],
}
_LAYERS = {  # of a block of ours, theirs
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


def is_installed() -> bool:
    """Whether there is a CTranslate2."""
    return find_spec("ctranslate2") is not None


def obstacles(config: ModelConfig) -> Iterator[str]:
    """Every reason why CTranslate2 cannot run a model of this shape."""
    if isinstance(config, TransformerConfig):
        yield from unknown_settings(config, _KNOWN)
    else:
        yield f"model.kind is {config.kind}; it knows transformer"


def export(
    folder: ModelFolder,
    model: Model,
    out: Path,
    *,
    precision: WeightPrecision = "float32",
    shortlist: Shortlist | None = None,
) -> None:
    """Write a folder that CTranslate2 runs and that regard still knows as a model.

    A shortlist says what each source word may become.
    """
    with whole_folder(out) as temporary:
        write_model(folder, model, temporary / ENGINE, precision=precision, shortlist=shortlist)
        folder.write(temporary)
        write_self_normalizing(folder.tokenizers, temporary)
        write_digests(temporary)


def inside(folder: Path) -> Path | None:
    """What CTranslate2 reads of a folder that was exported; None: it was not."""
    return folder / ENGINE if (folder / ENGINE).is_dir() else None


def write_model(
    folder: ModelFolder,
    model: Model,
    out: Path,
    *,
    precision: WeightPrecision = "float32",
    shortlist: Shortlist | None = None,
) -> None:
    """Write what CTranslate2 alone needs."""
    need("ctranslate2", extra="fast")
    refuse(obstacles(model.config), "CTranslate2 cannot run this model")
    assert isinstance(model, Transformer), "it is expressible"
    if precision == "float16":
        _refuse_overflow(model)
    places = _places(model.config, folder.seen.longest_source)
    spec = _specification(model, places)
    source, target = (
        side.pieces(range(side.vocab_size))
        for side in (folder.tokenizers.source, folder.tokenizers.target)
    )
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.config.unk_token = target[SPECIAL.unknown]
    spec.config.bos_token = target[SPECIAL.start]
    spec.config.eos_token = target[SPECIAL.end]
    spec.config.decoder_start_token = target[model.config.start_mark]
    spec.config.add_source_eos = True
    layer_norm = model.config.norm == "layer"  # what PyTorch's norms add to a variance:
    spec.config.layer_norm_epsilon = 1e-5 if layer_norm else torch.finfo(torch.float32).eps
    spec.config.add_attribute("max_length", places)  # for us; CTranslate2 leaves it alone
    spec.validate()
    spec.optimize(quantization=precision)
    out.mkdir(parents=True)
    spec.save(str(out))
    if shortlist is not None:
        write_vmap(shortlist, folder.tokenizers, out)


def _refuse_overflow(model: Transformer) -> None:
    """Raise an error if a weight would become infinite as float16."""
    largest = torch.finfo(torch.float16).max
    for name, weight in model.named_parameters():
        if weight.abs().max() > largest:
            raise ModelError(
                f"The weight {name} has numbers up to {weight.abs().max():.4g}, and float16 ends "
                f"at {largest:.0f}. Use --precision bfloat16 or float32."
            )


def _places(config: TransformerConfig, longest_seen: int) -> int | None:
    """How many places a sentence may have; None: any number."""
    if config.positions == "rotary":
        return None
    if config.positions == "learned":
        return config.max_positions
    return max(_INPUT, min(4 * longest_seen, _LONGEST))


def _specification(model: Transformer, places: int | None) -> Any:
    from ctranslate2 import specs

    config, known = model.config, specs.Activation
    activations = {
        "relu": known.RELU,
        "gelu": known.GELU,
        "gelu_tanh": known.GELUTanh,
        "silu": known.SWISH,
    }
    shape = {
        "pre_norm": True,  # with a place for the final norm; `_put_blocks` says how it is
        "no_final_norm": isinstance(model.encoder.norm, nn.Identity),
        "activation": activations[config.activation],
        "ffn_glu": config.feedforward == "gated",
        "rms_norm": config.norm == "rms",
        "rotary_dim": 0 if config.positions == "rotary" else None,  # 0: all of a head
        "rotary_interleave": True,
    }
    encoder = specs.TransformerEncoderSpec(config.encoder_layers, config.heads, **shape)
    decoder = specs.TransformerDecoderSpec(config.decoder_layers, config.heads, **shape)
    for stack, table, own, embedding in (
        (encoder, encoder.embeddings[0], model.encoder, model.source_embedding),
        (decoder, decoder.embeddings, model.decoder, model.target_embedding),
    ):
        table.weight = _array(embedding.table.weight)
        stack.scale_embeddings = config.scale_embedding
        if places is not None:
            stack.position_encodings.encodings = _positions(embedding, config, places)
        _put_blocks(stack, own, config)
    decoder.projection.weight = _array(model.projection.weight)
    if model.projection.bias is not None:
        decoder.projection.bias = _array(model.projection.bias)
    return specs.TransformerSpec(encoder, decoder)


def _positions(embedding: Embedding, config: TransformerConfig, places: int) -> NDArray[np.float32]:
    """A row for each place; with none of its own, CTranslate2 would take sinusoids in halves."""
    if config.positions == "learned":
        return _array(embedding.positions.table.weight)  # type: ignore[union-attr, arg-type]
    if config.positions == "none":
        return np.zeros((places, config.width), np.float32)
    return _array(sinusoids(places, config.width, config.sinusoid_layout))


def _put_blocks(stack: Any, own: Any, config: TransformerConfig) -> None:
    """The blocks of the encoder or of the decoder, and the norm after them."""
    stack.pre_norm = config.norm_order == "pre"
    if not isinstance(own.norm, nn.Identity):
        _put(stack.layer_norm, own.norm)
    for layer, block in zip(stack.layer, own.blocks, strict=True):
        for name, module in block.named_modules():
            if name in _LAYERS:
                *parts, last = _LAYERS[name].split(".")
                part = attrgetter(".".join(parts))(layer)
                _put(part[int(last)] if last.isdigit() else getattr(part, last), module)
        if config.attention.score == "dot":  # not divided by sqrt(d)
            for attention in ("self_attention", "attention"):
                if hasattr(layer, attention):
                    getattr(layer, attention).queries_scale = np.float32(1)


def _put(spec: Any, layer: nn.Linear | nn.LayerNorm | nn.RMSNorm) -> None:
    """Copy the weights of a linear layer or a norm."""
    if isinstance(layer, nn.Linear):
        spec.weight, spec.bias = _array(layer.weight), _array(layer.bias)
        return
    spec.gamma = _array(layer.weight)
    if isinstance(layer, nn.LayerNorm):
        spec.beta = _array(layer.bias)


def _array(tensor: Tensor) -> NDArray[np.float32]:
    """A copy, for CTranslate2 quantises in place."""
    return np.array(tensor.detach().float().cpu().numpy(), copy=True)
