"""BERT and RoBERTa, both ways: our masked language model.

They differ in names, in what stands before the scores of words, and in where places begin: the
first of RoBERTa's is its number of padding, and one more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from regard.config import Tree, build
from regard.exchange.huggingface.folder import CONFIG, TOKENIZER, ForeignFolder
from regard.exchange.huggingface.library_text import (
    marks_of,
    obstacles_in_text,
    read_text,
    text_files,
    unwritable_text,
)
from regard.exchange.huggingface.settings import (
    ACTIVATIONS,
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
    their_numbering,
    their_rows,
    under_our_names,
    under_their_names,
)
from regard.models.base import Model
from regard.models.folder import ModelFolder
from regard.models.labelling import LabelConfig
from regard.models.masked import MaskedConfig
from regard.text.base import Tokenizer
from regard.text.config import ForeignKind
from regard.text.numbering import ALONE, Numbering
from regard.text.special import SPECIAL

_SETTINGS: Names = {
    "layers": ("num_hidden_layers", 12),
    "width": ("hidden_size", 768),
    "heads": ("num_attention_heads", 12),
    "feedforward_width": ("intermediate_size", 3072),
    "activation": ("hidden_act", "gelu"),
    "dropout": ("hidden_dropout_prob", 0.1),
    "attention_dropout": ("attention_probs_dropout_prob", 0.1),
    "norm_epsilon": ("layer_norm_eps", 1e-12),
}
DEFAULTS = defaults_of(_SETTINGS) | {
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
}
_BLOCK = {
    "attention.project": ["attention.self.query", "attention.self.key", "attention.self.value"],
    "attention.combine": ["attention.output.dense"],
    "attention_residual.norm": ["attention.output.LayerNorm"],
    "feedforward.expand": ["intermediate.dense"],
    "feedforward.contract": ["output.dense"],
    "feedforward_residual.norm": ["output.LayerNorm"],
}
_WORDS, _PLACES, _SEGMENTS = (
    f"embeddings.{name}_embeddings.weight" for name in ("word", "position", "token_type")
)
_POOLER = "pooler.dense"
TEMPLATE = "<s> $A </s>"  # a text as our models read it
EncoderConfig = MaskedConfig | LabelConfig


@dataclass(frozen=True)
class Family:
    """What BERT and RoBERTa do not share."""

    name: str  # their model_type
    classes: tuple[str, str]  # with the scores of words, and without
    text: ForeignKind
    defaults: dict[str, Any]
    head: dict[str, list[str]]
    bias: str
    output: str
    with_next_sentence: str | None  # the class that also has that

    @property
    def own_bias(self) -> str:
        """The bias of the layer that scores words."""
        return self.output.replace(".weight", ".bias")

    @property
    def known(self) -> list[str]:
        """The classes that can be read."""
        heads = [*([self.with_next_sentence] if self.with_next_sentence else []), *self.labelling]
        return [*self.classes, *heads]

    @property
    def labelling(self) -> tuple[str, str]:
        """The classes that give labels: to words, and to texts."""
        stem = self.classes[1].removesuffix("Model")
        return f"{stem}ForTokenClassification", f"{stem}ForSequenceClassification"

    def numbering(self, folder: ForeignFolder, size: int) -> Numbering:
        """Which of so many ids are our special tokens."""
        marks = marks_of(folder, self.text)
        return Numbering(size, marks["pad"], marks["unk"], marks["cls"], marks["sep"])

    def first_place(self, config: dict[str, Any]) -> int:
        """The row of the first position."""
        return int(config["pad_token_id"]) + 1 if self.name == "roberta" else 0


def _table(layers: int, prefix: str) -> Table:
    return {
        "embedding.norm": [f"{prefix}embeddings.LayerNorm"],
        **for_each_block("encoder.blocks", f"{prefix}encoder.layer", layers, _BLOCK),
    }


BERT = Family(
    "bert",
    ("BertForMaskedLM", "BertModel"),
    "wordpiece",
    {"vocab_size": 30522, "type_vocab_size": 2, "pad_token_id": 0},
    {
        "head.dense": ["cls.predictions.transform.dense"],
        "head.norm": ["cls.predictions.transform.LayerNorm"],
    },
    "cls.predictions.bias",
    "cls.predictions.decoder.weight",
    "BertForPreTraining",
)
ROBERTA = Family(
    "roberta",
    ("RobertaForMaskedLM", "RobertaModel"),
    "byte_bpe",
    {"vocab_size": 50265, "type_vocab_size": 2, "pad_token_id": 1},
    {"head.dense": ["lm_head.dense"], "head.norm": ["lm_head.layer_norm"]},
    "lm_head.bias",
    "lm_head.decoder.weight",
    None,
)
FAMILIES = {family.name: family for family in (BERT, ROBERTA)}
_NEXT_SENTENCE = {
    "next_sentence.pooler": ["bert.pooler.dense"],
    "next_sentence.classify": ["cls.seq_relationship"],
}


def family_for(folder: ModelFolder) -> Family:
    """Return the family that a model of ours is exported to."""
    return ROBERTA if folder.tokenizers.config.kind == ROBERTA.text else BERT


def settings_of(folder: ForeignFolder) -> tuple[Family, Tree]:
    """Return the family of a folder, and its settings, with their defaults."""
    family = FAMILIES[folder.config["model_type"]]
    return family, folder.settings(DEFAULTS | family.defaults)


def obstacles_to_import(folder: ForeignFolder) -> Iterator[str]:
    """Every reason why a folder of theirs cannot be a model of ours."""
    family, config = settings_of(folder)
    yield from obstacles_in_theirs(config, _SETTINGS, family.known)
    for name in ("is_decoder", "add_cross_attention"):
        if config.get(name):
            yield f"{name} is true; a masked model of ours sees all of one text"
    places = config.get("position_embedding_type") or "absolute"
    if places != "absolute":
        yield f"position_embedding_type is {places}; absolute can be read"
    if config.get("architectures") == ["BertForPreTraining"] and config["type_vocab_size"] < 2:
        yield "type_vocab_size is below 2; to judge pairs of texts, ours must be told apart"
    in_text = [*obstacles_in_text(folder, family.text, config["vocab_size"])]
    given = config["pad_token_id"]  # tokens with this id have no position in RoBERTa
    pad = given if in_text else marks_of(folder, family.text)["pad"]
    if family is ROBERTA and (type(given) is not int or given != pad):
        yield f"pad_token_id is {given}, not that of the tokenizer; positions are counted by it"
    yield from in_text


def read(folder: ForeignFolder, tensors: ForeignTensors) -> tuple[ModelFolder, Weights]:
    """The description of a model of ours, and its weights, from a folder without obstacles."""
    family, settings = settings_of(folder)
    numbering = family.numbering(folder, settings["vocab_size"])
    mask = marks_of(folder, family.text)["mask"]
    prefix = f"{family.name}." if f"{family.name}.{_WORDS}" in tensors else ""
    head, judges_pairs = _has_head(tensors), "cls.seq_relationship.weight" in tensors
    may_tie = settings["tie_word_embeddings"] or not head
    output, tied = tensors.output(family.output, prefix + _WORDS, may_tie=may_tie)
    form = {
        "tied_embeddings": "all" if tied else "none",
        "head": head,
        "output_bias": head,
        "next_sentence": judges_pairs,
        "pooler": not judges_pairs and f"{prefix}{_POOLER}.weight" in tensors,
        "head_activation": ACTIVATIONS[settings["hidden_act"]] if family is BERT else "gelu",
        **({} if mask is None else {"mask_id": numbering.ours([mask])[0]}),
    }
    config = build(MaskedConfig, stack_form(family, settings) | form)
    weights = read_stack(family, settings, tensors, prefix, numbering)
    if head:
        weights |= under_our_names(tensors, family.head)
    if config.next_sentence:
        weights |= under_our_names(tensors, _NEXT_SENTENCE)
    elif config.pooler:
        weights |= under_our_names(tensors, {"pooler": [prefix + _POOLER]})
    if config.output_bias:
        bias = tensors.first(family.own_bias, family.bias)
        weights["projection.bias"] = our_bias(bias, numbering)
        tensors.unread(family.bias, family.own_bias)
    if not tied:
        weights["projection.weight"] = our_rows(output, numbering)
    return description_of(config, read_text(folder, family.text, numbering)), weights


def _has_head(tensors: ForeignTensors) -> bool:
    return any(name.startswith(("cls.predictions.", "lm_head.")) for name in tensors)


def read_stack(
    family: Family,
    settings: dict[str, Any],
    tensors: ForeignTensors,
    prefix: str,
    numbering: Numbering,
) -> Weights:
    """The weights of embeddings and blocks under our names."""
    table = _table(settings["num_hidden_layers"], prefix)
    _compare_buffers(tensors, prefix, settings["max_position_embeddings"])
    return under_our_names(tensors, table) | {
        "embedding.table.weight": our_rows(tensors[prefix + _WORDS], numbering),
        "embedding.positions.table.weight": tensors[prefix + _PLACES][
            family.first_place(settings) :
        ],
        "embedding.segments.weight": tensors[prefix + _SEGMENTS],
    }


def _compare_buffers(tensors: ForeignTensors, prefix: str, places: int) -> None:
    """Account for what older versions stored: the positions of a text, and its segments."""
    counted = torch.arange(places)[None]
    tensors.redundant(f"{prefix}embeddings.position_ids", counted, "the numbers from 0 on")
    zeros = torch.zeros_like(counted)
    tensors.redundant(f"{prefix}embeddings.token_type_ids", zeros, "all zeros")


def stack_form(family: Family, config: dict[str, Any]) -> dict[str, Any]:
    """Our settings of embeddings and blocks."""
    return {
        **our_settings(config, _SETTINGS),
        "positions": "learned",
        "max_positions": config["max_position_embeddings"] - family.first_place(config),
        "embedding_norm": True,
        "scale_embedding": False,
        "segments": config["type_vocab_size"],
    }


def obstacles_to_export(folder: ModelFolder, model: Model | None) -> Iterator[str]:
    """Every reason why a model of ours cannot be one of theirs."""
    config, family = folder.config, family_for(folder)
    assert isinstance(config, MaskedConfig)
    yield from obstacles_in_stack(config)
    fixed = config.activation if family is BERT else "gelu"
    if config.head and config.head_activation != fixed:
        yield f"model.head_activation is {config.head_activation}; it knows {fixed} there"
    if config.next_sentence and not (family.with_next_sentence and config.head):
        yield f"model.next_sentence is true; {family.name} knows it not, or not without a head"
    yield from unwritable_text(folder.tokenizers)


def obstacles_in_stack(config: EncoderConfig) -> Iterator[str]:
    """Every reason why the embeddings and blocks of a model cannot be theirs."""
    form = {"positions": "learned", "norm_order": "post", "start_token": "start"}
    yield from obstacles_in_ours(config, **form, embedding_norm=True)
    if config.final_norm:
        yield "model.final_norm is true; it has no norm after the last block"


def written(folder: ModelFolder, ours: Weights) -> Written:
    """Their settings by file, their weights, and the files of the tokenizer; without obstacles."""
    config, tokenizer = folder.config, folder.tokenizers.target
    assert isinstance(config, MaskedConfig)
    family, numbering = family_for(folder), their_numbering(tokenizer)
    prefix = f"{family.name}." if config.head else ""
    name = family.classes[0 if config.head else 1]
    settings = stack_settings(
        family, config, numbering, (config.next_sentence and family.with_next_sentence) or name
    )
    weights = stack_weights(family, config, ours, numbering, prefix)
    if config.head:
        weights |= under_their_names(ours, family.head)
    if config.next_sentence:
        weights |= under_their_names(ours, _NEXT_SENTENCE)
    elif config.pooler:
        weights |= under_their_names(ours, {"pooler": [prefix + _POOLER]})
    if config.head:
        words = ours["embedding.table.weight"]
        output = ours.get("projection.weight", words)
        bias = ours.get("projection.bias", words.new_zeros(len(words)))
        weights[family.bias] = their_rows(bias, numbering)
        if not settings["tie_word_embeddings"]:
            weights[family.output] = their_rows(output, numbering)
            weights[family.own_bias] = weights[family.bias].clone()
    files = {CONFIG: settings, TOKENIZER: text_settings(tokenizer, numbering, config.mask_id)}
    return files, weights, text_files(folder.tokenizers, TEMPLATE, config.mask_id)


def stack_weights(
    family: Family, config: EncoderConfig, ours: Weights, numbering: Numbering, prefix: str
) -> Weights:
    """The weights of embeddings and blocks under their names."""
    weights = under_their_names(ours, _table(config.layers, prefix))
    words = ours["embedding.table.weight"]
    scale = config.width**0.5 if config.scale_embedding else 1.0
    weights[prefix + _WORDS] = their_rows(words * scale, numbering)
    places = ours["embedding.positions.table.weight"]
    unused = places.new_zeros(family.first_place({"pad_token_id": _pad(numbering)}), config.width)
    weights[prefix + _PLACES] = torch.cat([unused, places])
    none = words.new_zeros(1, config.width)
    weights[prefix + _SEGMENTS] = ours.get("embedding.segments.weight", none)
    return weights


def _pad(numbering: Numbering) -> int:
    return 0 if numbering.pad is None else numbering.pad


def stack_settings(
    family: Family, config: EncoderConfig, numbering: Numbering, name: str
) -> dict[str, Any]:
    """Their settings for a model of that class."""
    settings = their_settings(config, _SETTINGS, family.name, name) | {
        "vocab_size": numbering.size,
        "type_vocab_size": max(config.segments, 1),
        "tie_word_embeddings": config.tied_embeddings != "none" and not config.scale_embedding,
        "pad_token_id": _pad(numbering),
    }
    longest = config.max_positions + family.first_place(settings)
    return settings | {"max_position_embeddings": longest}


def text_settings(
    tokenizer: Tokenizer, numbering: Numbering, mask: int | None = None
) -> dict[str, Any]:
    """What their tokenizers call the special tokens."""
    ids = {"pad": SPECIAL.pad, "unk": SPECIAL.unknown, "cls": SPECIAL.start, "sep": SPECIAL.end}
    names = {
        f"{mark}_token": tokenizer.pieces([number])[0]
        for mark, number in (ids if mask is None else ids | {"mask": mask}).items()
        if numbering.theirs[number] != ALONE
    }
    return {"tokenizer_class": "PreTrainedTokenizerFast", **names}
