"""Import and export of XLNet: regard's permutation language model.

XLNet stores attention weights by head, as (in, heads, head_dim). It has no maximum length, and its
memory length can be chosen at inference; regard's is a setting.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from regard.config import build
from regard.exchange.huggingface.folder import CONFIG, TOKENIZER, HuggingFaceFolder
from regard.exchange.huggingface.settings import SettingsMap, block_export_problems
from regard.exchange.huggingface.tokenizer_classes import CLASSES, TokenizerImporter
from regard.exchange.huggingface.tokenizer_export import (
    tokenizer_export_problems,
    tokenizer_files,
    tokenizer_settings,
)
from regard.exchange.huggingface.weights import (
    ExportedModel,
    HuggingFaceTensors,
    TensorTransform,
    WeightMap,
    Weights,
    even_then_odd,
    for_each_block,
    get_id_mapping,
    is_tied,
    layer_weights,
    to_hf_embeddings,
    to_hf_rows,
    to_hf_weights,
    to_internal_bias,
)
from regard.models.base import Model
from regard.models.folder import ModelFolder
from regard.models.permuted import PermutedConfig
from regard.text.id_mapping import NO_IMPORTED_ID, IdMapping

NAME, WITHOUT_HEAD = "XLNetLMHeadModel", "XLNetModel"
_EMBEDDINGS, _OUTPUT, _BIAS = "word_embedding.weight", "lm_loss.weight", "lm_loss.bias"
_SETTINGS = SettingsMap(
    {
        "num_layers": ("n_layer", 24),
        "d_model": ("d_model", 1024),
        "num_heads": ("n_head", 16),
        "ffn_dim": ("d_inner", 4096),
        "activation": ("ff_activation", "gelu"),
        "dropout": ("dropout", 0.1),
        "norm_eps": ("layer_norm_eps", 1e-12),
    },
    {
        "vocab_size": 32000,
        "d_head": None,
        "attn_type": "bi",
        "bi_data": False,
        "mem_len": 512,
        "reuse_len": None,
        "use_mems_eval": True,
        "use_mems_train": False,
        "clamp_len": -1,
        "tie_word_embeddings": True,
    },
)
_SEGMENT = 512  # tokens, as in XLNet's pretraining
_LAYERS = {
    "attention_residual.norm": ["rel_attn.layer_norm"],
    "feedforward.expand": ["ff.layer_1"],
    "feedforward.contract": ["ff.layer_2"],
    "feedforward_residual.norm": ["ff.layer_norm"],
}
_PROJECTIONS = ["rel_attn.q", "rel_attn.k", "rel_attn.v"]


def _weight_map(blocks: int, heads: int, prefix: str) -> WeightMap:
    by_head = TensorTransform(lambda w: w.flatten(1), lambda w: w.unflatten(1, (heads, -1)))
    transposed = TensorTransform(
        lambda w: w.flatten(1).t(), lambda w: w.t().unflatten(1, (heads, -1))
    )
    bias = TensorTransform(lambda w: w.unsqueeze(1), lambda w: w.squeeze(1))  # (H, d) -> (H, 1, d)
    swapped = TensorTransform(lambda w: w.transpose(0, 1), lambda w: w.transpose(0, 1))
    block = {
        **layer_weights(_LAYERS),
        "attention.project.weight": (_PROJECTIONS, transposed),  # (D, H, d) -> (H d, D)
        "attention.combine.weight": (["rel_attn.o"], by_head),
        "attention.score.distance.weight": (["rel_attn.r"], transposed),
        "attention.score.key_bias": (["rel_attn.r_w_bias"], bias),
        "attention.score.distance_bias": (["rel_attn.r_r_bias"], bias),
        "segments.bias": (["rel_attn.r_s_bias"], bias),
        "segments.table": (["rel_attn.seg_embed"], swapped),
    }
    query = TensorTransform(Tensor.flatten, lambda w: w[None, None])
    return {
        **for_each_block("encoder.blocks", f"{prefix}layer", blocks, block),
        "question": ([f"{prefix}mask_emb"], query),
    }


def import_problems(folder: HuggingFaceFolder) -> Iterator[str]:
    """Yield every reason why a HuggingFace folder cannot be imported.

    Other settings have no effect: `same_length` belongs to attn_type uni, `untie_r` is not used by
    transformers, and `summary_...` belongs to classifiers.
    """
    config = folder.settings(_SETTINGS.defaults, optional=("mem_len",))
    yield from _SETTINGS.import_problems(config, NAME, WITHOUT_HEAD)
    if config["attn_type"] != "bi":
        yield f"attn_type is {config['attn_type']}; supported: bi"
    if config["bi_data"]:
        yield "bi_data is true, which reverses half of each batch; supported: false"
    if config["reuse_len"]:
        yield (
            f"reuse_len is {config['reuse_len']}, which stores the beginning of each segment in "
            "memory; supported: its end"
        )
    head_dim = config["d_model"] / config["n_head"]
    if head_dim.is_integer() and config["d_head"] not in (None, head_dim):
        yield f"d_head is {config['d_head']}; supported: d_model / n_head, {head_dim:g}"
    yield from TokenizerImporter(folder, "xlnet").import_problems(config["vocab_size"])


def import_model(
    folder: HuggingFaceFolder, tensors: HuggingFaceTensors
) -> tuple[ModelFolder, Weights]:
    """Return the description and weights of the model in a folder without problems."""
    settings = folder.settings(_SETTINGS.defaults, optional=("mem_len",))
    importer = TokenizerImporter(folder, "xlnet")
    special_ids = importer.special_token_ids
    eod_id = importer.backend_tokenizer.token_to_id("<eod>")
    eos_id = special_ids["eos"] if eod_id is None else eod_id
    id_mapping = IdMapping(
        settings["vocab_size"], special_ids["pad"], special_ids["unk"], special_ids["bos"], eos_id
    )
    prefix = "transformer." if f"transformer.{_EMBEDDINGS}" in tensors else ""
    has_head = _BIAS in tensors
    may_tie = settings["tie_word_embeddings"] or not has_head
    embedding_weights = tensors.embeddings(
        prefix + _EMBEDDINGS, _OUTPUT, id_mapping, may_tie=may_tie
    )
    memory_length = (
        settings["mem_len"] or _SETTINGS.hf_only["mem_len"]
    )  # None: unlimited in HuggingFace
    fields = {
        **_SETTINGS.from_hf(settings),
        **dict.fromkeys(("attention_dropout", "activation_dropout"), settings["dropout"]),
        "max_positions": _SEGMENT,
        "memory_length": memory_length if settings["use_mems_train"] else 0,
        "evaluation_memory_length": memory_length if settings["use_mems_eval"] else 0,
        "max_distance": settings["clamp_len"] if settings["clamp_len"] > 0 else None,
        "tied_embeddings": "none" if "projection.weight" in embedding_weights else "all",
        "output_bias": has_head,
        "segment_documents": False,
    }
    config = build(PermutedConfig, fields)
    weights = embedding_weights | tensors.convert(
        _weight_map(config.num_layers, config.num_heads, prefix)
    )
    if has_head:
        weights["projection.bias"] = to_internal_bias(tensors[_BIAS], id_mapping)
    return importer.model_folder(config, id_mapping), weights


def export_problems(folder: ModelFolder, model: Model | None) -> Iterator[str]:
    """Yield every reason why a model cannot be exported as XLNet."""
    config = folder.config
    assert isinstance(config, PermutedConfig)
    yield from block_export_problems(config, norm_order="post")
    if config.d_model % 2:
        yield f"model.d_model is {config.d_model}; transformers requires an even d_model for XLNet"
    for name in ("embedding_norm", "final_norm"):
        if getattr(config, name):
            yield f"model.{name} is true; supported: false"
    yield from tokenizer_export_problems(folder.tokenizers)


def export_model(folder: ModelFolder, internal: Weights) -> ExportedModel:
    """Return HuggingFace's settings by file, weights, and tokenizer files."""
    config, tokenizer = folder.config, folder.tokenizers.target
    assert isinstance(config, PermutedConfig)
    id_mapping, prefix = get_id_mapping(tokenizer), "transformer."
    if config.sinusoid_layout == "interleaved":
        distances = (name for name in internal if name.endswith(".score.distance.weight"))
        internal |= {name: even_then_odd(internal[name], 1) for name in distances}
    weights = to_hf_weights(internal, _weight_map(config.num_layers, config.num_heads, prefix))
    weights |= to_hf_embeddings(internal, config, id_mapping, prefix + _EMBEDDINGS, _OUTPUT)
    bias = internal.get("projection.bias", torch.zeros(tokenizer.vocab_size))
    weights[_BIAS] = to_hf_rows(bias, id_mapping)
    tokens = tokenizer.ids_to_tokens(range(tokenizer.vocab_size))
    special = CLASSES["XLNetTokenizer"].special_tokens
    internal_ids = {
        name.removesuffix("_token"): tokens.index(token)
        for name, token in special.items()
        if token in tokens
    }
    ids = {name: id_mapping.imported_ids[number] for name, number in internal_ids.items()}
    special_ids = {
        f"{name}_token_id": ids.get(name, NO_IMPORTED_ID) for name in ("bos", "eos", "pad")
    }
    evaluation_memory = config.memory_length_for(training=False)
    settings = _SETTINGS.to_hf(config, "xlnet", NAME) | {
        "vocab_size": id_mapping.size,
        "d_head": config.d_model // config.num_heads,
        "attn_type": "bi",
        "clamp_len": -1 if config.max_distance is None else config.max_distance,
        "mem_len": evaluation_memory or config.memory_length or None,
        "use_mems_eval": evaluation_memory > 0,
        "use_mems_train": config.memory_length > 0,
        "tie_word_embeddings": is_tied(config),
        **{name: None if i == NO_IMPORTED_ID else i for name, i in special_ids.items()},
    }
    files = {
        CONFIG: settings,
        TOKENIZER: tokenizer_settings(tokenizer, internal_ids) | {"padding_side": "left"},
    }
    return files, weights, tokenizer_files(folder.tokenizers, "$A")
