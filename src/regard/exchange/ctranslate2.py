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
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.attention.positions import sinusoids
from regard.data.shortlist import Shortlist
from regard.errors import ConfigError, ModelError, one_message
from regard.exchange.ctranslate2_files import write_vmap
from regard.exchange.digests import write_digests
from regard.exchange.normalizer import write_self_normalizing
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


def is_installed() -> bool:
    """Whether there is a CTranslate2."""
    return find_spec("ctranslate2") is not None


def require_installed() -> None:
    """Say what to install if there is none."""
    if not is_installed():
        raise ConfigError("CTranslate2 is not installed. Install it: pip install 'regard[fast]'")


def obstacles(config: ModelConfig) -> Iterator[str]:
    """Every reason why CTranslate2 cannot run a model of this shape."""
    if not isinstance(config, TransformerConfig):
        yield f"model.kind is {config.kind}; it knows transformer"
        return
    attention = config.attention
    if attention.score not in ("scaled_dot", "dot"):
        yield f"model.attention.score is {attention.score}; it knows scaled_dot and dot"
    if attention.select != "soft":
        yield f"model.attention.select is {attention.select}; it knows soft"
    if config.key_width not in (None, config.width // config.heads):
        yield f"model.key_width is {config.key_width}; it knows keys as wide as values"
    if config.positions == "relative":
        yield "model.positions is relative; it knows sinusoidal, learned, rotary and none"
    if config.norm == "batch":
        yield "model.norm is batch; it knows layer and rms"
    if config.feedforward == "convolution":
        yield "model.feedforward is convolution; it knows linear and gated"


def require_expressible(config: ModelConfig) -> None:
    """Raise all obstacles at once."""
    found = list(obstacles(config))
    if found:
        raise ModelError(one_message(found, "CTranslate2 cannot run this model"))


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
    require_installed()
    require_expressible(model.config)
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
    spec.config.layer_norm_epsilon = _epsilon(model.config)
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


def _epsilon(config: TransformerConfig) -> float:
    """What PyTorch's norms add to a variance."""
    return 1e-5 if config.norm == "layer" else torch.finfo(torch.float32).eps


def _specification(model: Transformer, places: int | None) -> Any:
    from ctranslate2 import specs

    config = model.config
    shape = _shape(model)
    encoder = specs.TransformerEncoderSpec(config.encoder_layers, config.heads, **shape)
    decoder = specs.TransformerDecoderSpec(config.decoder_layers, config.heads, **shape)
    _put_embedding(encoder, encoder.embeddings[0], model.source_embedding, config, places)
    _put_embedding(decoder, decoder.embeddings, model.target_embedding, config, places)
    _put_blocks(encoder, model.encoder, config)
    _put_blocks(decoder, model.decoder, config)
    for layer, block in zip(decoder.layer, model.decoder.blocks, strict=True):
        _put_cross_attention(layer.attention, block, config)
    decoder.projection.weight = _array(model.projection.weight)
    if model.projection.bias is not None:
        decoder.projection.bias = _array(model.projection.bias)
    return specs.TransformerSpec(encoder, decoder)


def _shape(model: Transformer) -> dict[str, Any]:
    """The arguments of both stacks."""
    from ctranslate2.specs import Activation

    config = model.config
    known = {
        "relu": Activation.RELU,
        "gelu": Activation.GELU,
        "gelu_tanh": Activation.GELUTanh,
        "silu": Activation.SWISH,
    }
    return {
        "pre_norm": True,  # with a place for the final norm; `_put_blocks` says how it is
        "no_final_norm": isinstance(model.encoder.norm, nn.Identity),
        "activation": known[config.activation],
        "ffn_glu": config.feedforward == "gated",
        "rms_norm": config.norm == "rms",
        "rotary_dim": 0 if config.positions == "rotary" else None,  # 0: all of a head
        "rotary_interleave": True,
    }


def _put_embedding(
    stack: Any, table: Any, embedding: Embedding, config: TransformerConfig, places: int | None
) -> None:
    table.weight = _array(embedding.table.weight)
    stack.scale_embeddings = config.scale_embedding
    if places is not None:
        stack.position_encodings.encodings = _positions(embedding, config, places)


def _positions(embedding: Embedding, config: TransformerConfig, places: int) -> NDArray[np.float32]:
    """A row for each place; with none of its own, CTranslate2 would take sinusoids in halves."""
    if config.positions == "learned":
        return _array(embedding.positions.table.weight)  # type: ignore[union-attr, arg-type]
    if config.positions == "none":
        return np.zeros((places, config.width), np.float32)
    return _array(sinusoids(places, config.width, config.sinusoid_layout))


def _put_blocks(stack: Any, own: Any, config: TransformerConfig) -> None:
    """What blocks of the encoder and of the decoder have in common, and the norm after them."""
    stack.pre_norm = config.norm_order == "pre"
    if not isinstance(own.norm, nn.Identity):
        _put_norm(stack.layer_norm, own.norm)
    for layer, block in zip(stack.layer, own.blocks, strict=True):
        attention, feedforward = layer.self_attention, layer.ffn
        _put_norm(attention.layer_norm, block.attention_residual.norm)
        _put_linear(attention.linear[0], block.attention.project)  # queries, keys and values
        _put_linear(attention.linear[1], block.attention.combine)
        _put_scale(attention, config)
        _put_norm(feedforward.layer_norm, block.feedforward_residual.norm)
        _put_linear(feedforward.linear_0, block.feedforward.expand)
        _put_linear(feedforward.linear_1, block.feedforward.contract)
        if config.feedforward == "gated":
            _put_linear(feedforward.linear_0_noact, block.feedforward.gate)


def _put_cross_attention(attention: Any, block: Any, config: TransformerConfig) -> None:
    _put_norm(attention.layer_norm, block.cross_residual.norm)
    _put_linear(attention.linear[0], block.cross.query)
    _put_linear(attention.linear[1], block.cross.memory)  # keys and values
    _put_linear(attention.linear[2], block.cross.combine)
    _put_scale(attention, config)


def _put_scale(attention: Any, config: TransformerConfig) -> None:
    if config.attention.score == "dot":  # not divided by sqrt(d)
        attention.queries_scale = np.float32(1)


def _put_linear(spec: Any, layer: nn.Linear) -> None:
    spec.weight, spec.bias = _array(layer.weight), _array(layer.bias)


def _put_norm(spec: Any, norm: nn.LayerNorm | nn.RMSNorm) -> None:
    spec.gamma = _array(norm.weight)
    if isinstance(norm, nn.LayerNorm):
        spec.beta = _array(norm.bias)


def _array(tensor: Tensor) -> NDArray[np.float32]:
    """A copy, for CTranslate2 quantises in place."""
    return np.array(tensor.detach().float().cpu().numpy(), copy=True)
