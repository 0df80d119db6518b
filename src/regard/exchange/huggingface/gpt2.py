"""GPT-2, both ways: our causal language model with norms before each sub-layer.

Its linear layers have a row for each input. It has one mark, the end of a text, which also begins
texts; what else we need is ours alone.
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
    ForeignFolder,
    several_ids,
)
from regard.exchange.huggingface.library_text import text_files, token_settings, unwritable_text
from regard.exchange.huggingface.settings import SettingNames, obstacles_in_ours
from regard.exchange.huggingface.tokenizer_classes import LibraryText
from regard.exchange.huggingface.weights import (
    SAME,
    TURNED,
    ForeignTensors,
    Table,
    Weights,
    Written,
    for_each_block,
    is_tied,
    layers,
    our_bias,
    their_numbering,
    their_rows,
    their_words,
    under_their_names,
)
from regard.models.base import Model
from regard.models.causal import CausalConfig
from regard.models.folder import ModelFolder
from regard.text.foreign import ForeignTokenizer
from regard.text.numbering import ALONE, Numbering
from regard.text.special import SPECIAL

NAME = "GPT2LMHeadModel"
_TIED = "tie_word_embeddings"
_OUTPUT = "lm_head.weight"
_MASKED = -1e4  # older versions stored it, and which tokens see which, with the weights
_SETTINGS = SettingNames(
    {
        "layers": ("n_layer", 12),
        "width": ("n_embd", 768),
        "heads": ("n_head", 12),
        "feedforward_width": ("n_inner", None),
        "activation": ("activation_function", "gelu_new"),
        "dropout": ("resid_pdrop", 0.1),
        "embedding_dropout": ("embd_pdrop", 0.1),
        "attention_dropout": ("attn_pdrop", 0.1),
        "norm_epsilon": ("layer_norm_epsilon", 1e-5),
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


def _table(blocks: int, prefix: str = "transformer.") -> Table:
    return {
        **for_each_block("encoder.blocks", f"{prefix}h", blocks, layers(_BLOCK, TURNED)),
        **layers({"encoder.norm": [f"{prefix}ln_f"]}),
        "embedding.positions.table.weight": ([f"{prefix}wpe.weight"], SAME),
    }


def obstacles_to_import(folder: ForeignFolder) -> Iterator[str]:
    """Every reason why a folder of theirs cannot be a model of ours."""
    config = folder.settings(_SETTINGS.defaults)
    yield from _SETTINGS.obstacles(config, NAME, *(["GPT2Model"] if config[_TIED] else []))
    if config.get("add_cross_attention"):
        yield "add_cross_attention is true; a causal model of ours reads one text"
    yield from LibraryText(folder, "byte_bpe").obstacles(config["vocab_size"])


def read(folder: ForeignFolder, tensors: ForeignTensors) -> tuple[ModelFolder, Weights]:
    """The description of a model of ours, and its weights, from a folder without obstacles."""
    settings, text = folder.settings(_SETTINGS.defaults), LibraryText(folder, "byte_bpe")
    size = settings["vocab_size"]
    start, ends = _mark(settings["bos_token_id"], size), _ends(folder, settings)
    end = start if start in ends else next(iter(ends), None)
    pad, unknown, silent = _unwritten(text, {start, *ends})
    numbering = Numbering(size, pad, unknown, start=silent if start == end else start, end=end)
    prefix = "transformer." if "transformer.wte.weight" in tensors else ""
    words = tensors.words(f"{prefix}wte.weight", _OUTPUT, numbering, may_tie=settings[_TIED])
    first = text.library.encode("a").ids[:1]  # BOS, where their tokenizer writes it
    form = {
        **_SETTINGS.ours(settings),
        "feedforward_width": settings["n_inner"] or 4 * settings["n_embd"],
        "norm_order": "pre",
        "positions": "learned",
        "scale_embedding": False,
        "output_bias": True,
        "attention": {"score": "scaled_dot" if settings["scale_attn_weights"] else "dot"},
        "tied_embeddings": "none" if "projection.weight" in words else "all",
        "start_token": "end" if start in (None, end) else "start",
        "bare_prompts": start is None or first != [start],
        "extra_eos_ids": numbering.ours(number for number in ends if number != end),
    }
    config = build(CausalConfig, form)
    weights = words | tensors.read(_table(config.layers, prefix))
    weights["projection.bias"] = our_bias(torch.zeros(size), numbering)
    longest = config.max_positions
    sees = torch.ones(longest, longest, dtype=torch.bool).tril()[None, None]
    for layer in range(config.layers):
        theirs, ours = f"{prefix}h.{layer}.attn", f"encoder.blocks.{layer}.attention.project"
        tensors.redundant(f"{theirs}.bias", sees, "a causal mask")
        tensors.redundant(f"{theirs}.masked_bias", torch.tensor(_MASKED), f"{_MASKED:g}")
        if settings["scale_attn_by_inverse_layer_idx"]:  # smaller queries give smaller scores
            for kind in ("weight", "bias"):
                weights[f"{ours}.{kind}"][: config.width] /= layer + 1
    return text.describe(config, numbering), weights


def _ends(folder: ForeignFolder, settings: dict[str, Any]) -> list[int]:
    """All EOS tokens that the model has; generation_config.json says them, or else config.json."""
    stated = folder.json(GENERATION).get("eos_token_id")
    ids = settings["eos_token_id"] if stated is None else stated
    marks = (_mark(number, settings["vocab_size"]) for number in several_ids(ids))
    return list(dict.fromkeys(mark for mark in marks if mark is not None))


def _unwritten(text: LibraryText, others: set[int | None]) -> list[int | None]:
    """Their PAD, UNK and BOS where their search must not write them, as ours never writes its own.

    Any other is a word like the rest.
    """
    forbidden, found = text.folder.forbidden_words(), list[int | None]()
    for token in (text.marks[mark] for mark in ("pad", "unk", "bos")):
        known = [token] in forbidden and token not in {*others, *found}
        found.append(token if known else None)
    return found


def _mark(number: Any, size: int) -> int | None:
    """A mark that a model has: some settings name ids that it lacks."""
    return number if type(number) is int and 0 <= number < size else None


def obstacles_to_export(folder: ModelFolder, model: Model | None) -> Iterator[str]:
    """Every reason why a model of ours cannot be a GPT-2."""
    config = folder.config
    assert isinstance(config, CausalConfig)
    scores = ("scaled_dot", "dot")
    form = {"positions": "learned", "norm_order": "pre", "embedding_norm": False}
    yield from obstacles_in_ours(config, scores, **form)
    if config.final_norm is False:
        yield "model.final_norm is false; it has a norm after the last block"
    if _has_biases(folder, config, model):
        yield "its output has biases other than zero; it has none"
    yield from unwritable_text(folder.tokenizers)


def _has_biases(folder: ModelFolder, config: CausalConfig, model: Model | None) -> bool:
    """Whether words have biases, or will have them after training."""
    if model is None:
        return config.output_bias
    bias = model.projection.bias
    numbering = their_numbering(folder.tokenizers.target)
    return bias is not None and bool(their_rows(bias.detach().cpu(), numbering).any())


def written(folder: ModelFolder, ours: Weights) -> Written:
    """Their settings by file, their weights, and the files of the tokenizer; without obstacles."""
    config, tokenizer = folder.config, folder.tokenizers.target
    assert isinstance(config, CausalConfig)
    numbering = their_numbering(tokenizer)
    weights = under_their_names(ours, _table(config.layers))
    weights |= their_words(ours, config, numbering, "transformer.wte.weight", _OUTPUT)
    first = "" if config.bare_prompts else "</s> " if config.start_token == "end" else "<s> "
    return _their_files(folder, config), weights, text_files(folder.tokenizers, f"{first}$A")


def _their_files(folder: ModelFolder, config: CausalConfig) -> dict[str, Any]:
    tokenizer = folder.tokenizers.target
    numbering = their_numbering(tokenizer)
    pad, unknown, start, end = numbering.theirs[:4]
    last = None if end == ALONE else end
    first = last if start == ALONE or config.start_token == "end" else start
    others = [numbering.theirs[number] for number in config.extra_eos_ids]
    marks = {"bos_token_id": first, "eos_token_id": [last, *others] if others else last}
    dropout = config.dropout if config.embedding_dropout is None else config.embedding_dropout
    settings = _SETTINGS.theirs(config, "gpt2", NAME) | {
        "vocab_size": numbering.size,
        "embd_pdrop": dropout,
        "scale_attn_weights": config.attention.score == "scaled_dot",
        "tie_word_embeddings": is_tied(config),
    }
    own = [] if isinstance(tokenizer, ForeignTokenizer) else [start]
    silent = [number for number in (pad, unknown, *own) if number not in (ALONE, last)]
    forbidden = {"bad_words_ids": [[number] for number in silent]} if silent else {}
    begin = SPECIAL.end if start == ALONE else SPECIAL.start
    ids = {"pad": SPECIAL.pad, "unk": SPECIAL.unknown, "bos": begin, "eos": SPECIAL.end}
    return {
        CONFIG: settings | marks,
        GENERATION: marks | forbidden,
        TOKENIZER: token_settings(tokenizer, ids),
    }
