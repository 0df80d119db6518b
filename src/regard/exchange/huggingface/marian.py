"""The encoder and decoder of "Attention Is All You Need" as HuggingFace has it, both ways.

It is our Transformer with sinusoids, all sines first, and a bias for each word of the output. With
norms after each sub-layer it is Marian, with norms before it Pegasus (with Marian's tokenizer).
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
    ForeignFolder,
    one_id,
)
from regard.exchange.huggingface.marian_text import (
    Marks,
    obstacles_in_text,
    read_text,
    text_files,
    text_settings,
    unwritable_text,
)
from regard.exchange.huggingface.settings import SettingNames, obstacles_in_ours
from regard.exchange.huggingface.weights import (
    ForeignTensors,
    Table,
    Weights,
    Written,
    for_each_block,
    layers,
    our_bias,
    our_rows,
    sines_first,
    their_numbering,
    their_rows,
    under_their_names,
)
from regard.models.base import Model
from regard.models.folder import ModelFolder, Training
from regard.models.protocol import Vocabulary
from regard.models.transformer import TransformerConfig
from regard.text.numbering import Numbering
from regard.text.tokenizer import Tokenizers

_CLASSES = {"marian": "MarianMTModel", "pegasus": "PegasusForConditionalGeneration"}
_LONGEST = 1024  # places of their table; sinusoids themselves have no end

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
_SETTINGS = SettingNames(
    {
        "encoder_layers": ("encoder_layers", 12),
        "decoder_layers": ("decoder_layers", 12),
        "width": ("d_model", 1024),
        "heads": ("encoder_attention_heads", 16),
        "feedforward_width": ("encoder_ffn_dim", 4096),
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


def _table(config: TransformerConfig) -> Table:
    stacks = {
        "encoder": (config.encoder_layers, _ENCODER_BLOCK),
        "decoder": (config.decoder_layers, _DECODER_BLOCK),
    }
    table: dict[str, Any] = {}
    for name, (blocks, block) in stacks.items():
        theirs = f"model.{name}.layers"
        table |= for_each_block(f"{name}.blocks", theirs, blocks, layers(block))
        if config.norm_order == "pre":
            table |= layers({f"{name}.norm": [f"model.{name}.layer_norm"]})
    return table


def _settings(folder: ForeignFolder) -> dict[str, Any]:
    """All that their config says, or leaves unsaid."""
    is_pegasus = folder.config.get("model_type") == "pegasus"
    return folder.settings(_SETTINGS.defaults | (_PEGASUS if is_pegasus else {}))


def obstacles_to_import(folder: ForeignFolder) -> Iterator[str]:
    """Every reason why a folder of theirs cannot be a model of ours."""
    config = _settings(folder)
    yield from _SETTINGS.obstacles(config, _CLASSES[config["model_type"]])
    places = config["max_position_embeddings"]
    if not LENGTH.holds(places):
        yield f"max_position_embeddings is {places}, and must be {LENGTH}"
        return
    for name in ("attention_heads", "ffn_dim"):
        if config[f"encoder_{name}"] != config[f"decoder_{name}"]:
            yield f"encoder_{name} and decoder_{name} differ; here they are one setting"
    for name in ("normalize_before", "normalize_embedding", "add_final_layer_norm"):
        if config.get(name) and config["model_type"] == "marian":
            yield f"{name} is true, which their own code leaves out"
    for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id"):
        if type(one_id(config[name])) is not int:
            yield f"{name} is {config[name]}; one id is needed"
            return
        if not 0 <= one_id(config[name]) < _marks(config).target_size:
            yield f"{name} is {config[name]}, which is no id of its vocabulary"
            return
    yield from obstacles_in_text(folder, _marks(config))


def read(folder: ForeignFolder, tensors: ForeignTensors) -> tuple[ModelFolder, Weights]:
    """The description of a model of ours, and its weights, from a folder without obstacles."""
    settings = _settings(folder)
    tokenizers = read_text(folder, _marks(settings))
    source, target = _numberings(tokenizers)
    joint = tokenizers.config.joint and source == target
    words, target_words, output = _read_tables(tensors, settings)
    tied = settings["tie_word_embeddings"] and torch.equal(target_words, output)
    shared = tied and joint and settings["share_encoder_decoder_embeddings"]
    is_one = shared and torch.equal(words, target_words)
    first, marks = one_id(settings["decoder_start_token_id"]), _marks(settings)
    start = "start" if first == marks.start else "end" if first == marks.end else "pad"
    form = {
        **_SETTINGS.ours(settings),
        "norm_order": "post" if settings["model_type"] == "marian" else "pre",
        "tied_embeddings": "all" if is_one else "decoder" if tied else "none",
        "sinusoid_layout": "halves",
        "output_bias": True,
        "start_token": start,
    }
    config = TransformerConfig(**form)
    weights = tensors.read(_table(config))
    weights["source_embedding.table.weight"] = our_rows(words, source)
    if config.tied_embeddings != "all":
        weights["target_embedding.table.weight"] = our_rows(target_words, target)
    if config.tied_embeddings == "none":
        weights["projection.weight"] = our_rows(output, target)
    for name in _SINUSOIDS:
        places = sinusoids(settings["max_position_embeddings"], config.width, "halves")
        tensors.redundant(name, places, "the table of sinusoids")
    bias = tensors[_BIAS].flatten() if _BIAS in tensors else torch.zeros(target.size)
    weights["projection.bias"] = our_bias(bias, target)
    text = folder.json(TOKENIZER)
    description = ModelFolder(
        config,
        Vocabulary(tokenizers.source.vocab_size, tokenizers.target.vocab_size, joint),
        tokenizers,
        {"source": text.get("source_lang"), "target": text.get("target_lang")},
        # Whatever is one text there is one text here.
        Training(settings["max_position_embeddings"] - 1, several_sentences=1.0),
    )
    return description, weights


def _numberings(tokenizers: Tokenizers) -> tuple[Numbering, Numbering]:
    return their_numbering(tokenizers.source), their_numbering(tokenizers.target)


def _read_tables(tensors: ForeignTensors, config: Tree) -> list[Tensor]:
    """The vectors of words that the encoder and the decoder read, and that score words.

    Each is as it is stored, or else the one that it is tied to.
    """
    tied, shared = config["tie_word_embeddings"], config["share_encoder_decoder_embeddings"]
    common: list[str] = []
    if shared:
        common = [_SHARED, *([_OUTPUT, _TARGET, _SOURCE] if tied else [])]
        tensors.unread(_SHARED, _SOURCE, _TARGET, _OUTPUT)
    return [
        tensors.first(_SOURCE, *common),
        tensors.first(_TARGET, *common, *([_OUTPUT] if tied else [])),
        tensors.first(_OUTPUT, *((common or [_TARGET]) if tied else [])),
    ]


def _marks(config: dict[str, Any]) -> Marks:
    pad, end = one_id(config["pad_token_id"]), one_id(config["eos_token_id"])
    first = one_id(config["decoder_start_token_id"])
    shared = config["share_encoder_decoder_embeddings"]
    sizes = config["vocab_size"], config["decoder_vocab_size"] or config["vocab_size"]
    return Marks(
        sizes[0],
        sizes[0] if shared else sizes[1],
        pad=None if pad == end else pad,
        start=None if first in (pad, end) else first,
        end=end,
    )


def obstacles_to_export(folder: ModelFolder, model: Model | None) -> Iterator[str]:
    """Every reason why a model of ours cannot be a Marian, or a Pegasus."""
    config = folder.config
    if not isinstance(config, TransformerConfig):
        yield f"model.kind is {config.kind}; it knows transformer"
        return
    yield from obstacles_in_ours(config, positions="sinusoidal")
    first = config.norm_order == "pre"
    if config.final_norm not in (None, first):
        yield f"model.final_norm is {config.final_norm}; only with pre-norm it has such a norm"
    if first and config.tied_embeddings != "all":
        yield f"model.tied_embeddings is {config.tied_embeddings}; with pre-norm, it knows all"
    yield from unwritable_text(folder.tokenizers)


def written(folder: ModelFolder, ours: Weights) -> Written:
    """Their settings by file, their weights, and the files of the tokenizer; without obstacles."""
    config = folder.config
    assert isinstance(config, TransformerConfig)
    if config.sinusoid_layout == "interleaved":
        ours = sines_first(ours)
    source_ids, target_ids = _numberings(folder.tokenizers)
    weights = under_their_names(ours, _table(config))
    source = their_rows(ours["source_embedding.table.weight"], source_ids)
    if config.tied_embeddings == "all":
        weights[_SHARED] = source
    else:
        target = ours["target_embedding.table.weight"]
        weights |= {_SOURCE: source, _TARGET: their_rows(target, target_ids)}
    if config.tied_embeddings == "none":
        weights[_OUTPUT] = their_rows(ours["projection.weight"], target_ids)
    bias = ours.get("projection.bias", torch.zeros(folder.vocabulary.target))
    weights[_BIAS] = their_rows(bias, target_ids)[None]
    files = _their_files(folder, config)
    if config.norm_order == "pre":  # Pegasus keeps its sinusoids with its weights
        places = sinusoids(files[CONFIG]["max_position_embeddings"], config.width, "halves")
        weights |= {name: places.clone() for name in _SINUSOIDS}
    return files, weights, text_files(folder.tokenizers)


def _their_files(folder: ModelFolder, config: TransformerConfig) -> dict[str, Any]:
    source, target = _numberings(folder.tokenizers)
    ids = dict(zip(("pad", "unknown", "start", "end"), target.theirs, strict=False))
    pad = ids["end"] if ids["pad"] < 0 else ids["pad"]  # theirs has one mark for both
    marks = {
        "pad_token_id": pad,
        "eos_token_id": ids["end"],
        "decoder_start_token_id": pad if config.start_token == "pad" else ids[config.start_token],
        "forced_eos_token_id": ids["end"],
    }
    silent = sorted({ids[name] for name in ("pad", "unknown", "start")} - {-1, ids["end"]})
    search = {"bad_words_ids": [[number] for number in silent], "num_beams": 5, "max_length": 512}
    kind = "pegasus" if config.norm_order == "pre" else "marian"
    settings = _SETTINGS.theirs(config, kind, _CLASSES[kind]) | {
        "decoder_attention_heads": config.heads,
        "decoder_ffn_dim": config.feedforward_width,
        "vocab_size": source.size,
        "decoder_vocab_size": target.size,
        "share_encoder_decoder_embeddings": config.tied_embeddings == "all",
        "tie_word_embeddings": config.tied_embeddings != "none",
        "max_position_embeddings": max(_LONGEST, folder.seen.longest_source + 1),
    }
    return {
        CONFIG: settings | marks,
        GENERATION: marks | search | {"length_penalty": 1.0, "early_stopping": False},
        TOKENIZER: {
            "tokenizer_class": "MarianTokenizer",
            "separate_vocabs": not folder.tokenizers.config.joint,
            "source_lang": folder.languages["source"],
            "target_lang": folder.languages["target"],
            "model_max_length": _LONGEST,
            **text_settings(folder.tokenizers),
        },
    }
