"""XLNet, both ways: our permutation language model.

Its attention has its weights by head, and rows for inputs. It has no limit of length, and how much
is remembered is said when it is used; a memory of ours has a length.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from regard.config import build
from regard.exchange.huggingface.folder import CONFIG, TOKENIZER, ForeignFolder
from regard.exchange.huggingface.library_text import text_files, token_settings, unwritable_text
from regard.exchange.huggingface.settings import SettingNames, obstacles_in_ours
from regard.exchange.huggingface.tokenizer_classes import CLASSES, LibraryText
from regard.exchange.huggingface.weights import (
    ForeignTensors,
    Form,
    Table,
    Weights,
    Written,
    for_each_block,
    is_tied,
    layers,
    our_bias,
    sines_before_cosines,
    their_numbering,
    their_rows,
    their_words,
    under_their_names,
)
from regard.models.base import Model
from regard.models.folder import ModelFolder
from regard.models.permuted import PermutedConfig
from regard.text.numbering import ALONE, Numbering

NAME, WITHOUT_HEAD = "XLNetLMHeadModel", "XLNetModel"
_WORDS, _OUTPUT, _BIAS = "word_embedding.weight", "lm_loss.weight", "lm_loss.bias"
_SETTINGS = SettingNames(
    {
        "layers": ("n_layer", 24),
        "width": ("d_model", 1024),
        "heads": ("n_head", 16),
        "feedforward_width": ("d_inner", 4096),
        "activation": ("ff_activation", "gelu"),
        "dropout": ("dropout", 0.1),
        "norm_epsilon": ("layer_norm_eps", 1e-12),
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
_SEGMENT = 512  # tokens: what XLNet was trained on
_LAYERS = {
    "attention_residual.norm": ["rel_attn.layer_norm"],
    "feedforward.expand": ["ff.layer_1"],
    "feedforward.contract": ["ff.layer_2"],
    "feedforward_residual.norm": ["ff.layer_norm"],
}
_PROJECTIONS = ["rel_attn.q", "rel_attn.k", "rel_attn.v"]


def _table(blocks: int, heads: int, prefix: str) -> Table:
    by_head = Form(lambda w: w.flatten(1), lambda w: w.unflatten(1, (heads, -1)))
    turned = Form(lambda w: w.flatten(1).t(), lambda w: w.t().unflatten(1, (heads, -1)))
    bias = Form(lambda w: w.unsqueeze(1), lambda w: w.squeeze(1))  # (H, d), ours (H, 1, d)
    swapped = Form(lambda w: w.transpose(0, 1), lambda w: w.transpose(0, 1))
    block = {
        **layers(_LAYERS),
        "attention.project.weight": (_PROJECTIONS, turned),  # (D, H, d), ours (H d, D)
        "attention.combine.weight": (["rel_attn.o"], by_head),
        "attention.score.distance.weight": (["rel_attn.r"], turned),
        "attention.score.key_bias": (["rel_attn.r_w_bias"], bias),
        "attention.score.distance_bias": (["rel_attn.r_r_bias"], bias),
        "segments.bias": (["rel_attn.r_s_bias"], bias),
        "segments.table": (["rel_attn.seg_embed"], swapped),
    }
    question = Form(Tensor.flatten, lambda w: w[None, None])
    return {
        **for_each_block("encoder.blocks", f"{prefix}layer", blocks, block),
        "question": ([f"{prefix}mask_emb"], question),
    }


def obstacles_to_import(folder: ForeignFolder) -> Iterator[str]:
    """Every reason why a folder of theirs cannot be a model of ours.

    What is not asked for changes nothing here: `same_length` belongs to attn_type uni, `untie_r`
    to the program that theirs came from, and `summary_...` to classifiers.
    """
    config = folder.settings(_SETTINGS.defaults, optional=("mem_len",))
    yield from _SETTINGS.obstacles(config, NAME, WITHOUT_HEAD)
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
    yield from LibraryText(folder, "xlnet").obstacles(config["vocab_size"])


def read(folder: ForeignFolder, tensors: ForeignTensors) -> tuple[ModelFolder, Weights]:
    """The description of a model of ours, and its weights, from a folder without obstacles."""
    settings = folder.settings(_SETTINGS.defaults, optional=("mem_len",))
    text = LibraryText(folder, "xlnet")
    marks = text.marks
    document = text.library.token_to_id("<eod>")
    end = marks["eos"] if document is None else document
    numbering = Numbering(settings["vocab_size"], marks["pad"], marks["unk"], marks["bos"], end)
    prefix = "transformer." if f"transformer.{_WORDS}" in tensors else ""
    head = _BIAS in tensors
    may_tie = settings["tie_word_embeddings"] or not head
    words = tensors.words(prefix + _WORDS, _OUTPUT, numbering, may_tie=may_tie)
    room = settings["mem_len"] or _SETTINGS.more["mem_len"]  # none: theirs keeps all there was
    form = {
        **_SETTINGS.ours(settings),
        **dict.fromkeys(("attention_dropout", "activation_dropout"), settings["dropout"]),
        "max_positions": _SEGMENT,
        "memory": room if settings["use_mems_train"] else 0,
        "evaluation_memory": room if settings["use_mems_eval"] else 0,
        "max_distance": settings["clamp_len"] if settings["clamp_len"] > 0 else None,
        "tied_embeddings": "none" if "projection.weight" in words else "all",
        "output_bias": head,
        "segment_documents": False,
    }
    config = build(PermutedConfig, form)
    weights = words | tensors.read(_table(config.layers, config.heads, prefix))
    if head:
        weights["projection.bias"] = our_bias(tensors[_BIAS], numbering)
    return text.describe(config, numbering), weights


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
    if config.sinusoid_layout == "interleaved":
        distances = (name for name in ours if name.endswith(".score.distance.weight"))
        ours |= {name: sines_before_cosines(ours[name], 1) for name in distances}
    weights = under_their_names(ours, _table(config.layers, config.heads, prefix))
    weights |= their_words(ours, config, numbering, prefix + _WORDS, _OUTPUT)
    bias = ours.get("projection.bias", torch.zeros(tokenizer.vocab_size))
    weights[_BIAS] = their_rows(bias, numbering)
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    special = CLASSES["XLNetTokenizer"].special
    named = {mark: pieces.index(name) for mark, name in special.items() if name in pieces}
    marks = {mark.removesuffix("_token"): number for mark, number in named.items()}
    ids = {mark: numbering.theirs[number] for mark, number in marks.items()}
    shown = {f"{mark}_token_id": ids.get(mark, ALONE) for mark in ("bos", "eos", "pad")}
    remembered = config.room(training=False)
    settings = _SETTINGS.theirs(config, "xlnet", NAME) | {
        "vocab_size": numbering.size,
        "d_head": config.width // config.heads,
        "attn_type": "bi",
        "clamp_len": -1 if config.max_distance is None else config.max_distance,
        "mem_len": remembered or config.memory or None,
        "use_mems_eval": remembered > 0,
        "use_mems_train": config.memory > 0,
        "tie_word_embeddings": is_tied(config),
        **{name: None if number == ALONE else number for name, number in shown.items()},
    }
    files = {
        CONFIG: settings,
        TOKENIZER: token_settings(tokenizer, marks) | {"padding_side": "left"},
    }
    return files, weights, text_files(folder.tokenizers, "$A")
