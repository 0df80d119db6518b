"""Import and export of HuggingFace's Marian and Pegasus: regard's Transformer.

With sinusoidal positions in the layout "halves" and an output bias. Post-norm models are Marian
models, pre-norm models are Pegasus models with Marian's tokenizer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from regard.attention.positions import sinusoids
from regard.bounds import LENGTH
from regard.config import Tree
from regard.exchange.huggingface.folder import (
    CONFIG,
    GENERATION,
    TOKENIZER,
    HuggingFaceFolder,
    to_single_id,
)
from regard.exchange.huggingface.marian_tokenizer import (
    SpecialTokenIds,
    import_tokenizers,
    tokenizer_export_problems,
    tokenizer_files,
    tokenizer_import_problems,
    tokenizer_settings,
)
from regard.exchange.huggingface.settings import SettingsMap, block_export_problems
from regard.exchange.huggingface.weights import (
    ExportedModel,
    HuggingFaceTensors,
    WeightMap,
    Weights,
    for_each_block,
    get_id_mapping,
    layer_weights,
    reorder_sinusoid_features,
    to_hf_rows,
    to_hf_weights,
    to_internal_bias,
    to_internal_rows,
)
from regard.models.base import Model
from regard.models.folder import DataStatistics, ModelFolder
from regard.models.protocol import Vocabulary
from regard.models.transformer import TransformerConfig
from regard.text.id_mapping import IdMapping
from regard.text.tokenizer import Tokenizers

_CLASSES = {"marian": "MarianMTModel", "pegasus": "PegasusForConditionalGeneration"}
_MAX_POSITIONS = 1024  # minimum for exported models; sinusoids have no limit

_ENCODER_BLOCK = {
    "attention.project": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    "attention.combine": ["self_attn.out_proj"],
    "attention_residual.norm": ["self_attn_layer_norm"],
    "feedforward.expand": ["fc1"],
    "feedforward.contract": ["fc2"],
    "feedforward_residual.norm": ["final_layer_norm"],
}
_DECODER_BLOCK = {
    **_ENCODER_BLOCK,
    "cross.query": ["encoder_attn.q_proj"],
    "cross.memory": ["encoder_attn.k_proj", "encoder_attn.v_proj"],
    "cross.combine": ["encoder_attn.out_proj"],
    "cross_residual.norm": ["encoder_attn_layer_norm"],
}
_SHARED, _OUTPUT, _BIAS = "model.shared.weight", "lm_head.weight", "final_logits_bias"
_SOURCE, _TARGET = (f"model.{stack}.embed_tokens.weight" for stack in ("encoder", "decoder"))
_SINUSOIDS = tuple(f"model.{stack}.embed_positions.weight" for stack in ("encoder", "decoder"))
_SETTINGS = SettingsMap(
    {
        "num_encoder_layers": ("encoder_layers", 12),
        "num_decoder_layers": ("decoder_layers", 12),
        "d_model": ("d_model", 1024),
        "num_heads": ("encoder_attention_heads", 16),
        "ffn_dim": ("encoder_ffn_dim", 4096),
        "activation": ("activation_function", "gelu"),
        "dropout": ("dropout", 0.1),
        "attention_dropout": ("attention_dropout", 0.0),
        "activation_dropout": ("activation_dropout", 0.0),
        "scale_embedding": ("scale_embedding", False),
    },
    {
        "vocab_size": 58101,
        "decoder_vocab_size": None,
        "decoder_attention_heads": 16,
        "decoder_ffn_dim": 4096,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "max_position_embeddings": 1024,
        "pad_token_id": 58100,
        "eos_token_id": 0,
        "decoder_start_token_id": 58100,
    },
)
_PEGASUS = {"vocab_size": 50265, "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}


def _weight_map(config: TransformerConfig) -> WeightMap:
    stacks = {
        "encoder": (config.num_encoder_layers, _ENCODER_BLOCK),
        "decoder": (config.num_decoder_layers, _DECODER_BLOCK),
    }
    table: dict[str, Any] = {}
    for name, (blocks, block) in stacks.items():
        hf = f"model.{name}.layers"
        table |= for_each_block(f"{name}.blocks", hf, blocks, layer_weights(block))
        if config.norm_order == "pre":
            table |= layer_weights({f"{name}.norm": [f"model.{name}.layer_norm"]})
    return table


def _settings(folder: HuggingFaceFolder) -> dict[str, Any]:
    """Return config.json with HuggingFace's defaults."""
    is_pegasus = folder.config.get("model_type") == "pegasus"
    return folder.settings(_SETTINGS.defaults | (_PEGASUS if is_pegasus else {}))


def import_problems(folder: HuggingFaceFolder) -> Iterator[str]:
    """Yield every reason why a HuggingFace folder cannot be imported."""
    config = _settings(folder)
    yield from _SETTINGS.import_problems(config, _CLASSES[config["model_type"]])
    max_positions = config["max_position_embeddings"]
    if not LENGTH.is_satisfied_by(max_positions):
        yield f"max_position_embeddings is {max_positions}, but must be {LENGTH}"
        return
    for name in ("attention_heads", "ffn_dim"):
        if config[f"encoder_{name}"] != config[f"decoder_{name}"]:
            yield f"encoder_{name} and decoder_{name} differ; they must be equal"
    for name in ("normalize_before", "normalize_embedding", "add_final_layer_norm"):
        if config.get(name) and config["model_type"] == "marian":
            yield f"{name} is true, which HuggingFace's Marian ignores"
    for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id"):
        if type(to_single_id(config[name])) is not int:
            yield f"{name} is {config[name]}, but must be a single id"
            return
        if not 0 <= to_single_id(config[name]) < _special_token_ids(config).target_size:
            yield f"{name} is {config[name]}, which is not an id of the vocabulary"
            return
    yield from tokenizer_import_problems(folder, _special_token_ids(config))


def import_model(
    folder: HuggingFaceFolder, tensors: HuggingFaceTensors
) -> tuple[ModelFolder, Weights]:
    """Return the description and weights of the model in a folder without problems."""
    settings = _settings(folder)
    tokenizers = import_tokenizers(folder, _special_token_ids(settings))
    source, target = _id_mappings(tokenizers)
    joint = tokenizers.config.joint and source == target
    source_table, target_table, projection = _read_embeddings(tensors, settings)
    tied = settings["tie_word_embeddings"] and torch.equal(target_table, projection)
    shared = tied and joint and settings["share_encoder_decoder_embeddings"]
    all_tied = shared and torch.equal(source_table, target_table)
    special_ids = _special_token_ids(settings)
    start = to_single_id(settings["decoder_start_token_id"])
    start_token = (
        "bos" if start == special_ids.bos else "eos" if start == special_ids.eos else "pad"
    )
    fields = {
        **_SETTINGS.from_hf(settings),
        "norm_order": "post" if settings["model_type"] == "marian" else "pre",
        "tied_embeddings": "all" if all_tied else "decoder" if tied else "none",
        "sinusoid_layout": "halves",
        "output_bias": True,
        "decoder_start_token": start_token,
    }
    config = TransformerConfig(**fields)
    weights = tensors.convert(_weight_map(config))
    weights["source_embedding.table.weight"] = to_internal_rows(source_table, source)
    if config.tied_embeddings != "all":
        weights["target_embedding.table.weight"] = to_internal_rows(target_table, target)
    if config.tied_embeddings == "none":
        weights["projection.weight"] = to_internal_rows(projection, target)
    for name in _SINUSOIDS:
        expected = sinusoids(settings["max_position_embeddings"], config.d_model, "halves")
        tensors.check_redundant(name, expected, "the table of sinusoids")
    bias = tensors[_BIAS].flatten() if _BIAS in tensors else torch.zeros(target.size)
    weights["projection.bias"] = to_internal_bias(bias, target)
    tokenizer_config = folder.json(TOKENIZER)
    description = ModelFolder(
        Vocabulary(tokenizers.source.vocab_size, tokenizers.target.vocab_size, joint),
        tokenizers,
        {side: tokenizer_config.get(f"{side}_lang") for side in ("source", "target")},
        # HuggingFace does not split texts into sentences.
        DataStatistics(settings["max_position_embeddings"] - 1, several_sentences=1.0),
        config,
    )
    return description, weights


def _id_mappings(tokenizers: Tokenizers) -> tuple[IdMapping, IdMapping]:
    return get_id_mapping(tokenizers.source), get_id_mapping(tokenizers.target)


def _read_embeddings(tensors: HuggingFaceTensors, config: Tree) -> list[Tensor]:
    """Return source embeddings, target embeddings and output projection.

    If one is not stored, it is the one that it is tied to.
    """
    tied, shared = config["tie_word_embeddings"], config["share_encoder_decoder_embeddings"]
    common: list[str] = []
    if shared:
        common = [_SHARED, *([_OUTPUT, _TARGET, _SOURCE] if tied else [])]
        tensors.ignore(_SHARED, _SOURCE, _TARGET, _OUTPUT)
    return [
        tensors.first(_SOURCE, *common),
        tensors.first(_TARGET, *common, *([_OUTPUT] if tied else [])),
        tensors.first(_OUTPUT, *((common or [_TARGET]) if tied else [])),
    ]


def _special_token_ids(config: dict[str, Any]) -> SpecialTokenIds:
    pad, eos = to_single_id(config["pad_token_id"]), to_single_id(config["eos_token_id"])
    start = to_single_id(config["decoder_start_token_id"])
    shared = config["share_encoder_decoder_embeddings"]
    sizes = config["vocab_size"], config["decoder_vocab_size"] or config["vocab_size"]
    return SpecialTokenIds(
        sizes[0],
        sizes[0] if shared else sizes[1],
        pad=None if pad == eos else pad,
        bos=None if start in (pad, eos) else start,
        eos=eos,
    )


def export_problems(folder: ModelFolder, model: Model | None) -> Iterator[str]:
    """Yield every reason why a model cannot be exported as Marian or Pegasus."""
    config = folder.config
    if not isinstance(config, TransformerConfig):
        yield f"model.kind is {config.kind}; supported: transformer"
        return
    yield from block_export_problems(config, positional_encoding="sinusoidal")
    pre_norm = config.norm_order == "pre"
    if config.final_norm not in (None, pre_norm):
        yield f"model.final_norm is {config.final_norm}; supported with this norm_order: {pre_norm}"
    if pre_norm and config.tied_embeddings != "all":
        yield f"model.tied_embeddings is {config.tied_embeddings}; supported with pre-norm: all"
    yield from tokenizer_export_problems(folder.tokenizers)


def export_model(folder: ModelFolder, internal: Weights) -> ExportedModel:
    """Return HuggingFace's settings by file, weights, and tokenizer files."""
    config = folder.config
    assert isinstance(config, TransformerConfig)
    if config.sinusoid_layout == "interleaved":
        internal = reorder_sinusoid_features(internal)
    source_ids, target_ids = _id_mappings(folder.tokenizers)
    weights = to_hf_weights(internal, _weight_map(config))
    source = to_hf_rows(internal["source_embedding.table.weight"], source_ids)
    if config.tied_embeddings == "all":
        weights[_SHARED] = source
    else:
        target = internal["target_embedding.table.weight"]
        weights |= {_SOURCE: source, _TARGET: to_hf_rows(target, target_ids)}
    if config.tied_embeddings == "none":
        weights[_OUTPUT] = to_hf_rows(internal["projection.weight"], target_ids)
    bias = internal.get("projection.bias", torch.zeros(folder.vocabulary.target))
    weights[_BIAS] = to_hf_rows(bias, target_ids)[None]
    files = _config_files(folder, config)
    if config.norm_order == "pre":  # Pegasus stores sinusoids with its weights
        positions = sinusoids(files[CONFIG]["max_position_embeddings"], config.d_model, "halves")
        weights |= {name: positions.clone() for name in _SINUSOIDS}
    return files, weights, tokenizer_files(folder.tokenizers)


def _config_files(folder: ModelFolder, config: TransformerConfig) -> dict[str, Any]:
    source, target = _id_mappings(folder.tokenizers)
    ids = dict(zip(("pad", "unk", "bos", "eos"), target.imported_ids, strict=False))
    pad = ids["eos"] if ids["pad"] < 0 else ids["pad"]  # the imported model had one token for both
    start = config.decoder_start_token
    special_ids = {
        "pad_token_id": pad,
        "eos_token_id": ids["eos"],
        "decoder_start_token_id": pad if start == "pad" else ids[start],
        "forced_eos_token_id": ids["eos"],
    }
    excluded = sorted({ids[name] for name in ("pad", "unk", "bos")} - {-1, ids["eos"]})
    search = {"bad_words_ids": [[number] for number in excluded], "num_beams": 5, "max_length": 512}
    kind = "pegasus" if config.norm_order == "pre" else "marian"
    settings = _SETTINGS.to_hf(config, kind, _CLASSES[kind]) | {
        "decoder_attention_heads": config.num_heads,
        "decoder_ffn_dim": config.ffn_dim,
        "vocab_size": source.size,
        "decoder_vocab_size": target.size,
        "share_encoder_decoder_embeddings": config.tied_embeddings == "all",
        "tie_word_embeddings": config.tied_embeddings != "none",
        "max_position_embeddings": max(_MAX_POSITIONS, folder.data_statistics.longest_source + 1),
    }
    return {
        CONFIG: settings | special_ids,
        GENERATION: special_ids | search | {"length_penalty": 1.0, "early_stopping": False},
        TOKENIZER: {
            "tokenizer_class": "MarianTokenizer",
            "separate_vocabs": not folder.tokenizers.config.joint,
            "source_lang": folder.languages["source"],
            "target_lang": folder.languages["target"],
            "model_max_length": _MAX_POSITIONS,
            **tokenizer_settings(folder.tokenizers),
        },
    }
