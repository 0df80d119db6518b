"""XLNet, both ways: our permutation language model.

Its attention has its weights by head, and rows for inputs. It has no limit of length, and how much
is remembered is said when it is used; a memory of ours has a length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from regard.config import build
from regard.exchange.huggingface.folder import CONFIG, TOKENIZER, ForeignFolder
from regard.exchange.huggingface.library_text import (
    XLNET_MARKS,
    marks_of,
    obstacles_in_text,
    read_text,
    text_files,
    unwritable_text,
)
from regard.exchange.huggingface.settings import (
    Names,
    defaults_of,
    description_of,
    obstacles_in_ours,
    obstacles_in_theirs,
    our_settings,
    their_settings,
)
from regard.exchange.huggingface.weights import (
    ForeignTensors,
    Table,
    Weights,
    Written,
    for_each_block,
    our_bias,
    our_rows,
    sines_before_cosines,
    their_numbering,
    their_rows,
    under_our_names,
    under_their_names,
)
from regard.models.base import Model
from regard.models.folder import ModelFolder
from regard.models.permuted import PermutedConfig
from regard.text.base import Tokenizer
from regard.text.numbering import ALONE, Numbering

NAME, WITHOUT_HEAD = "XLNetLMHeadModel", "XLNetModel"
_WORDS, _QUESTION = "word_embedding.weight", "mask_emb"
_OUTPUT, _BIAS = "lm_loss.weight", "lm_loss.bias"
_SETTINGS: Names = {
    "layers": ("n_layer", 24),
    "width": ("d_model", 1024),
    "heads": ("n_head", 16),
    "feedforward_width": ("d_inner", 4096),
    "activation": ("ff_activation", "gelu"),
    "dropout": ("dropout", 0.1),
    "norm_epsilon": ("layer_norm_eps", 1e-12),
}
_DEFAULTS = defaults_of(_SETTINGS) | {
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
}
_SEGMENT = 512  # tokens: what XLNet was trained on
_BLOCK = {
    "attention_residual.norm": ["rel_attn.layer_norm"],
    "feedforward.expand": ["ff.layer_1"],
    "feedforward.contract": ["ff.layer_2"],
    "feedforward_residual.norm": ["ff.layer_norm"],
}
_PROJECTIONS = ("q", "k", "v")
_IN_CONFIG = ("bos", "eos", "pad")  # marks whose ids their settings tell
_BY_HEAD = {  # theirs (H, d), ours (H, 1, d)
    "attention.score.key_bias": "r_w_bias",
    "attention.score.distance_bias": "r_r_bias",
    "segments.bias": "r_s_bias",
}


def _table(layers: int, prefix: str) -> Table:
    return for_each_block("encoder.blocks", f"{prefix}layer", layers, _BLOCK)


def obstacles_to_import(folder: ForeignFolder) -> Iterator[str]:
    """Every reason why a folder of theirs cannot be a model of ours.

    What is not asked for changes nothing here: `same_length` belongs to attn_type uni, `untie_r`
    to the program that theirs came from, and `summary_...` to classifiers.
    """
    config = folder.settings(_DEFAULTS, optional=("mem_len",))
    yield from obstacles_in_theirs(config, _SETTINGS, [NAME, WITHOUT_HEAD])
    if config["attn_type"] != "bi":
        yield f"attn_type is {config['attn_type']}; ours sees both sides (bi)"
    if config["bi_data"]:
        yield "bi_data is true, which reads half of each batch backwards; ours reads forwards"
    if config["reuse_len"]:
        yield (
            f"reuse_len is {config['reuse_len']}, which remembers the beginning of each segment; "
            "ours remembers its end"
        )
    head = config["d_model"] / config["n_head"]
    if head.is_integer() and config["d_head"] not in (None, head):
        yield f"d_head is {config['d_head']}; ours is d_model / n_head, {head:g}"
    yield from obstacles_in_text(folder, "xlnet", config["vocab_size"])


def read(folder: ForeignFolder, tensors: ForeignTensors) -> tuple[ModelFolder, Weights]:
    """The description of a model of ours, and its weights, from a folder without obstacles."""
    settings = folder.settings(_DEFAULTS, optional=("mem_len",))
    marks = marks_of(folder, "xlnet")
    end = marks["eos"] if marks["document"] is None else marks["document"]
    numbering = Numbering(settings["vocab_size"], marks["pad"], marks["unk"], marks["bos"], end)
    prefix = "transformer." if f"transformer.{_WORDS}" in tensors else ""
    head = _BIAS in tensors
    may_tie = settings["tie_word_embeddings"] or not head
    output, tied = tensors.output(_OUTPUT, prefix + _WORDS, may_tie=may_tie)
    config = _our_config(settings, head=head, tied=tied)
    weights = under_our_names(tensors, _table(config.layers, prefix))
    for number in range(config.layers):
        found = _our_attention(tensors, f"{prefix}layer.{number}.rel_attn.")
        weights |= {f"encoder.blocks.{number}.{name}": part for name, part in found.items()}
    weights["question"] = tensors[prefix + _QUESTION].flatten()
    weights["embedding.table.weight"] = our_rows(tensors[prefix + _WORDS], numbering)
    if config.output_bias:
        weights["projection.bias"] = our_bias(tensors[_BIAS], numbering)
    if not tied:
        weights["projection.weight"] = our_rows(output, numbering)
    return description_of(config, read_text(folder, "xlnet", numbering)), weights


def _our_attention(theirs: Mapping[str, Tensor], prefix: str) -> Weights:
    """The weights of a block's attention: (D, H, d) -> (H d, D)"""

    def weight(name: str) -> Tensor:
        return theirs[prefix + name]

    return {
        "attention.project.weight": torch.cat([weight(p).flatten(1).t() for p in _PROJECTIONS]),
        "attention.combine.weight": weight("o").flatten(1),
        "attention.score.distance.weight": weight("r").flatten(1).t(),
        "segments.table": weight("seg_embed").transpose(0, 1),
        **{ours: weight(name).unsqueeze(1) for ours, name in _BY_HEAD.items()},
    }


def _our_config(config: dict[str, Any], *, head: bool, tied: bool) -> PermutedConfig:
    room = config["mem_len"] or _DEFAULTS["mem_len"]  # none: theirs keeps whatever there was
    return build(
        PermutedConfig,
        {
            **our_settings(config, _SETTINGS),
            **dict.fromkeys(("attention_dropout", "activation_dropout"), config["dropout"]),
            "max_positions": _SEGMENT,
            "memory": room if config["use_mems_train"] else 0,
            "evaluation_memory": room if config["use_mems_eval"] else 0,
            "max_distance": config["clamp_len"] if config["clamp_len"] > 0 else None,
            "tied_embeddings": "all" if tied else "none",
            "output_bias": head,
            "segment_documents": False,
        },
    )


def obstacles_to_export(folder: ModelFolder, model: Model | None) -> Iterator[str]:
    """Every reason why a model of ours cannot be an XLNet."""
    config = folder.config
    assert isinstance(config, PermutedConfig)
    yield from obstacles_in_ours(config, norm_order="post")
    if config.width % 2:
        yield f"model.width is {config.width}; transformers runs an XLNet of even widths alone"
    for name, where in (("embedding_norm", "over embeddings"), ("final_norm", "after the blocks")):
        if getattr(config, name):
            yield f"model.{name} is true; it has no norm {where}"
    yield from unwritable_text(folder.tokenizers)


def written(folder: ModelFolder, ours: Weights) -> Written:
    """Their settings by file, their weights, and the files of the tokenizer; without obstacles."""
    config, tokenizer = folder.config, folder.tokenizers.target
    assert isinstance(config, PermutedConfig)
    numbering, prefix = their_numbering(tokenizer), "transformer."
    weights = under_their_names(ours, _table(config.layers, prefix))
    for number in range(config.layers):
        found = _their_attention(ours, f"encoder.blocks.{number}.", config)
        weights |= {f"{prefix}layer.{number}.rel_attn.{name}": w for name, w in found.items()}
    words = ours["embedding.table.weight"]
    scale = config.width**0.5 if config.scale_embedding else 1.0
    weights[prefix + _WORDS] = their_rows(words * scale, numbering)
    weights[prefix + _QUESTION] = ours["question"][None, None]
    bias = ours.get("projection.bias", words.new_zeros(len(words)))
    weights[_BIAS] = their_rows(bias, numbering)
    settings = _their_settings(config, numbering)
    if not settings["tie_word_embeddings"]:
        weights[_OUTPUT] = their_rows(ours.get("projection.weight", words), numbering)
    marks = _their_marks(tokenizer, numbering)
    files = {
        CONFIG: settings | {f"{m}_token_id": marks.get(m, (m, None))[1] for m in _IN_CONFIG},
        TOKENIZER: {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "padding_side": "left",
            **{f"{mark}_token": name for mark, (name, _) in marks.items()},
        },
    }
    return files, weights, text_files(folder.tokenizers, "$A")


def _their_attention(ours: Weights, prefix: str, config: PermutedConfig) -> Weights:
    """The weights of a block's attention: (H d, D) -> (D, H, d)"""

    def by_head(weight: Tensor) -> Tensor:
        return weight.unflatten(1, (config.heads, -1)).clone()

    parts = ours[f"{prefix}attention.project.weight"].chunk(len(_PROJECTIONS))
    distance = ours[f"{prefix}attention.score.distance.weight"]
    if config.sinusoid_layout == "interleaved":
        distance = sines_before_cosines(distance, 1)
    return {
        **{name: by_head(part.t()) for name, part in zip(_PROJECTIONS, parts, strict=True)},
        "o": by_head(ours[f"{prefix}attention.combine.weight"]),
        "r": by_head(distance.t()),
        "seg_embed": ours[f"{prefix}segments.table"].transpose(0, 1).clone(),
        **{name: ours[prefix + own].squeeze(1).clone() for own, name in _BY_HEAD.items()},
    }


def _their_settings(config: PermutedConfig, numbering: Numbering) -> dict[str, Any]:
    remembered = config.room(training=False)
    own_output = config.tied_embeddings == "none" or config.scale_embedding
    return their_settings(config, _SETTINGS, "xlnet", NAME) | {
        "vocab_size": numbering.size,
        "d_head": config.width // config.heads,
        "attn_type": "bi",
        "clamp_len": -1 if config.max_distance is None else config.max_distance,
        "mem_len": remembered or config.memory or None,
        "use_mems_eval": remembered > 0,
        "use_mems_train": config.memory > 0,
        "tie_word_embeddings": not own_output,
    }


def _their_marks(tokenizer: Tokenizer, numbering: Numbering) -> dict[str, tuple[str, int]]:
    """The name and the id of each mark that a tokenizer has, by what they call it."""
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    ids = {piece: n for piece, n in zip(pieces, numbering.theirs, strict=True) if n != ALONE}
    return {
        mark: (name, ids[name])
        for mark, name in XLNET_MARKS.items()
        if name in ids and mark != "document"
    }
