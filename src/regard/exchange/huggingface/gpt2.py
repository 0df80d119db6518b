"""Import and export of GPT-2: regard's causal language model with pre-norm.

GPT-2 stores linear layers as (in, out). Its only special token is the end of a text, which is also
BOS; the others get internal ids only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from regard.config import build
from regard.exchange.huggingface.folder import (
    CONFIG,
    GENERATION,
    TOKENIZER,
    HuggingFaceFolder,
    to_id_list,
)
from regard.exchange.huggingface.settings import SettingsMap, block_export_problems
from regard.exchange.huggingface.tokenizer_classes import TokenizerImporter
from regard.exchange.huggingface.tokenizer_export import (
    tokenizer_export_problems,
    tokenizer_files,
    tokenizer_settings,
)
from regard.exchange.huggingface.weights import (
    IDENTITY,
    TRANSPOSED,
    ExportedModel,
    HuggingFaceTensors,
    WeightMap,
    Weights,
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
from regard.models.causal import CausalConfig
from regard.models.folder import ModelFolder
from regard.text.id_mapping import NO_IMPORTED_ID, IdMapping
from regard.text.imported import ImportedTokenizer
from regard.text.special import SPECIAL

NAME = "GPT2LMHeadModel"
_TIED = "tie_word_embeddings"
_OUTPUT = "lm_head.weight"
_MASKED = -1e4  # older versions stored it and the causal mask with the weights
_SETTINGS = SettingsMap(
    {
        "num_layers": ("n_layer", 12),
        "d_model": ("n_embd", 768),
        "num_heads": ("n_head", 12),
        "ffn_dim": ("n_inner", None),
        "activation": ("activation_function", "gelu_new"),
        "dropout": ("resid_pdrop", 0.1),
        "embedding_dropout": ("embd_pdrop", 0.1),
        "attention_dropout": ("attn_pdrop", 0.1),
        "norm_eps": ("layer_norm_epsilon", 1e-5),
        "max_positions": ("n_positions", 1024),
    },
    {
        "vocab_size": 50257,
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "tie_word_embeddings": True,
        "bos_token_id": 50256,
        "eos_token_id": 50256,
    },
)
_BLOCK = {
    "attention_residual.norm": ["ln_1"],
    "attention.project": ["attn.c_attn"],
    "attention.combine": ["attn.c_proj"],
    "feedforward_residual.norm": ["ln_2"],
    "feedforward.expand": ["mlp.c_fc"],
    "feedforward.contract": ["mlp.c_proj"],
}


def _weight_map(blocks: int, prefix: str = "transformer.") -> WeightMap:
    return {
        **for_each_block("encoder.blocks", f"{prefix}h", blocks, layer_weights(_BLOCK, TRANSPOSED)),
        **layer_weights({"encoder.norm": [f"{prefix}ln_f"]}),
        "embedding.positions.table.weight": ([f"{prefix}wpe.weight"], IDENTITY),
    }


def import_problems(folder: HuggingFaceFolder) -> Iterator[str]:
    """Yield every reason why a HuggingFace folder cannot be imported."""
    config = folder.settings(_SETTINGS.defaults)
    yield from _SETTINGS.import_problems(config, NAME, *(["GPT2Model"] if config[_TIED] else []))
    if config.get("add_cross_attention"):
        yield "add_cross_attention is true; supported: false"
    yield from TokenizerImporter(folder, "byte_bpe").import_problems(config["vocab_size"])


def import_model(
    folder: HuggingFaceFolder, tensors: HuggingFaceTensors
) -> tuple[ModelFolder, Weights]:
    """Return the description and weights of the model in a folder without problems."""
    settings, importer = folder.settings(_SETTINGS.defaults), TokenizerImporter(folder, "byte_bpe")
    size = settings["vocab_size"]
    bos, eos_ids = _valid_id(settings["bos_token_id"], size), _eos_ids(folder, settings)
    eos = bos if bos in eos_ids else next(iter(eos_ids), None)
    pad, unk, excluded_bos = _excluded_ids(importer, {bos, *eos_ids})
    start = excluded_bos if bos == eos else bos
    id_mapping = IdMapping(size, pad, unk, start=start, end=eos)
    prefix = "transformer." if "transformer.wte.weight" in tensors else ""
    embedding_weights = tensors.embeddings(
        f"{prefix}wte.weight", _OUTPUT, id_mapping, may_tie=settings[_TIED]
    )
    first = importer.backend_tokenizer.encode("a").ids[:1]  # BOS, if the tokenizer adds it
    fields = {
        **_SETTINGS.from_hf(settings),
        "ffn_dim": settings["n_inner"] or 4 * settings["n_embd"],
        "norm_order": "pre",
        "positional_encoding": "learned",
        "scale_embedding": False,
        "output_bias": True,
        "attention": {"score": "scaled_dot" if settings["scale_attn_weights"] else "dot"},
        "tied_embeddings": "none" if "projection.weight" in embedding_weights else "all",
        "decoder_start_token": "eos" if bos in (None, eos) else "bos",
        "bare_prompts": bos is None or first != [bos],
        "extra_eos_ids": id_mapping.to_internal(number for number in eos_ids if number != eos),
    }
    config = build(CausalConfig, fields)
    weights = embedding_weights | tensors.convert(_weight_map(config.num_layers, prefix))
    weights["projection.bias"] = to_internal_bias(torch.zeros(size), id_mapping)
    longest = config.max_positions
    causal_mask = torch.ones(longest, longest, dtype=torch.bool).tril()[None, None]
    for layer in range(config.num_layers):
        hf, internal = f"{prefix}h.{layer}.attn", f"encoder.blocks.{layer}.attention.project"
        tensors.check_redundant(f"{hf}.bias", causal_mask, "a causal mask")
        tensors.check_redundant(f"{hf}.masked_bias", torch.tensor(_MASKED), f"{_MASKED:g}")
        if settings["scale_attn_by_inverse_layer_idx"]:  # scale queries
            for kind in ("weight", "bias"):
                weights[f"{internal}.{kind}"][: config.d_model] /= layer + 1
    return importer.model_folder(config, id_mapping), weights


def _eos_ids(folder: HuggingFaceFolder, settings: dict[str, Any]) -> list[int]:
    """Return the ids of EOS in generation_config.json, or else in config.json."""
    from_generation = folder.json(GENERATION).get("eos_token_id")
    ids = settings["eos_token_id"] if from_generation is None else from_generation
    valid = (_valid_id(number, settings["vocab_size"]) for number in to_id_list(ids))
    return list(dict.fromkeys(number for number in valid if number is not None))


def _excluded_ids(importer: TokenizerImporter, others: set[int | None]) -> list[int | None]:
    """Return the ids of PAD, UNK and BOS that bad_words_ids excludes from generation, else None.

    Only those are mapped to regard's special tokens, which are never generated; the others are
    ordinary tokens.
    """
    bad_words, excluded = importer.folder.bad_words_ids(), list[int | None]()
    for token in (importer.special_token_ids[name] for name in ("pad", "unk", "bos")):
        is_excluded = [token] in bad_words and token not in {*others, *excluded}
        excluded.append(token if is_excluded else None)
    return excluded


def _valid_id(number: Any, size: int) -> int | None:
    """Return an id, or None if it is not in the vocabulary, as in some config files."""
    return number if type(number) is int and 0 <= number < size else None


def export_problems(folder: ModelFolder, model: Model | None) -> Iterator[str]:
    """Yield every reason why a model cannot be exported as GPT-2."""
    config = folder.config
    assert isinstance(config, CausalConfig)
    scores = ("scaled_dot", "dot")
    required = {"positional_encoding": "learned", "norm_order": "pre", "embedding_norm": False}
    yield from block_export_problems(config, scores, **required)
    if config.final_norm is False:
        yield "model.final_norm is false; supported: true"
    if _has_output_bias(folder, config, model):
        yield "its output bias is not zero; GPT-2 has no output bias"
    yield from tokenizer_export_problems(folder.tokenizers)


def _has_output_bias(folder: ModelFolder, config: CausalConfig, model: Model | None) -> bool:
    """Whether there is an output bias other than 0, or will be after training."""
    if model is None:
        return config.output_bias
    bias = model.projection.bias
    id_mapping = get_id_mapping(folder.tokenizers.target)
    return bias is not None and bool(to_hf_rows(bias.detach().cpu(), id_mapping).any())


def export_model(folder: ModelFolder, internal: Weights) -> ExportedModel:
    """Return HuggingFace's settings by file, weights, and tokenizer files."""
    config, tokenizer = folder.config, folder.tokenizers.target
    assert isinstance(config, CausalConfig)
    id_mapping = get_id_mapping(tokenizer)
    weights = to_hf_weights(internal, _weight_map(config.num_layers))
    weights |= to_hf_embeddings(internal, config, id_mapping, "transformer.wte.weight", _OUTPUT)
    start = "</s> " if config.decoder_start_token == "eos" else "<s> "
    template = "$A" if config.bare_prompts else f"{start}$A"
    return _config_files(folder, config), weights, tokenizer_files(folder.tokenizers, template)


def _config_files(folder: ModelFolder, config: CausalConfig) -> dict[str, Any]:
    tokenizer = folder.tokenizers.target
    id_mapping = get_id_mapping(tokenizer)
    pad, unk, bos, imported_eos = id_mapping.imported_ids[:4]
    eos = None if imported_eos == NO_IMPORTED_ID else imported_eos
    start = eos if bos == NO_IMPORTED_ID or config.decoder_start_token == "eos" else bos
    extra_eos = [id_mapping.imported_ids[number] for number in config.extra_eos_ids]
    special_ids = {"bos_token_id": start, "eos_token_id": [eos, *extra_eos] if extra_eos else eos}
    dropout = config.dropout if config.embedding_dropout is None else config.embedding_dropout
    settings = _SETTINGS.to_hf(config, "gpt2", NAME) | {
        "vocab_size": id_mapping.size,
        "embd_pdrop": dropout,
        "scale_attn_weights": config.attention.score == "scaled_dot",
        "tie_word_embeddings": is_tied(config),
    }
    never_generated = (pad, unk) if isinstance(tokenizer, ImportedTokenizer) else (pad, unk, bos)
    excluded = [number for number in never_generated if number not in (NO_IMPORTED_ID, eos)]
    bad_words = {"bad_words_ids": [[number] for number in excluded]} if excluded else {}
    internal_bos = SPECIAL.eos if bos == NO_IMPORTED_ID else SPECIAL.bos
    ids = {"pad": SPECIAL.pad, "unk": SPECIAL.unk, "bos": internal_bos, "eos": SPECIAL.eos}
    return {
        CONFIG: settings | special_ids,
        GENERATION: special_ids | bad_words,
        TOKENIZER: tokenizer_settings(tokenizer, ids),
    }
