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
from regard.exchange.huggingface.library_text import text_files, token_settings, unwritable_text
from regard.exchange.huggingface.settings import ACTIVATIONS, SettingNames, obstacles_in_ours
from regard.exchange.huggingface.tokenizer_classes import LibraryText
from regard.exchange.huggingface.weights import (
    SAME,
    ForeignTensors,
    Form,
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
from regard.models.folder import ModelFolder
from regard.models.labelling import LabelConfig
from regard.models.masked import MaskedConfig
from regard.text.config import ForeignKind
from regard.text.numbering import Numbering
from regard.text.special import SPECIAL

_SETTINGS = SettingNames(
    {
        "layers": ("num_hidden_layers", 12),
        "width": ("hidden_size", 768),
        "heads": ("num_attention_heads", 12),
        "feedforward_width": ("intermediate_size", 3072),
        "activation": ("hidden_act", "gelu"),
        "dropout": ("hidden_dropout_prob", 0.1),
        "attention_dropout": ("attention_probs_dropout_prob", 0.1),
        "norm_epsilon": ("layer_norm_eps", 1e-12),
    },
    {"max_position_embeddings": 512, "tie_word_embeddings": True, "type_vocab_size": 2},
)
_BLOCK = {
    "attention.project": ["attention.self.query", "attention.self.key", "attention.self.value"],
    "attention.combine": ["attention.output.dense"],
    "attention_residual.norm": ["attention.output.LayerNorm"],
    "feedforward.expand": ["intermediate.dense"],
    "feedforward.contract": ["output.dense"],
    "feedforward_residual.norm": ["output.LayerNorm"],
}
WORDS, _PLACES, _SEGMENTS = (
    f"embeddings.{name}_embeddings.weight" for name in ("word", "position", "token_type")
)
_SCORES = (".bias", ".decoder.bias", ".decoder.weight")  # of words
TEMPLATE = "<s> $A </s>"  # a text as our models read it
MARKS = {"pad": SPECIAL.pad, "unk": SPECIAL.unknown, "cls": SPECIAL.start, "sep": SPECIAL.end}
EncoderConfig = MaskedConfig | LabelConfig


@dataclass(frozen=True)
class Family:
    """What BERT and RoBERTa do not share."""

    name: str  # their model_type
    stem: str  # of the names of their classes
    text: ForeignKind
    defaults: dict[str, int]
    output: str  # what scores words
    head: dict[str, list[str]]  # the layers before that
    next_sentence: tuple[str, ...] = ()  # the class that also judges pairs of texts

    @property
    def labelling(self) -> tuple[str, str]:
        """The classes that give labels: to words, and to texts."""
        return f"{self.stem}ForTokenClassification", f"{self.stem}ForSequenceClassification"

    def first_place(self, config: dict[str, Any]) -> int:
        """The row of the first position."""
        return int(config["pad_token_id"]) + 1 if self.name == "roberta" else 0


def _table(family: Family, settings: Tree, prefix: str) -> Table:
    """Embeddings, but for words, and blocks."""
    unused = family.first_place(settings)
    places = Form(
        lambda table: table[unused:],
        lambda table: torch.cat([table.new_zeros(unused, table.shape[1]), table]),
    )
    blocks = settings["num_hidden_layers"]
    return {
        "embedding.positions.table.weight": ([prefix + _PLACES], places),
        "embedding.segments.weight": ([prefix + _SEGMENTS], SAME),
        **layers({"embedding.norm": [f"{prefix}embeddings.LayerNorm"]}),
        **for_each_block("encoder.blocks", f"{prefix}encoder.layer", blocks, layers(_BLOCK)),
    }


BERT = Family(
    "bert",
    "Bert",
    "wordpiece",
    {"vocab_size": 30522, "pad_token_id": 0},
    "cls.predictions",
    {
        "head.dense": ["cls.predictions.transform.dense"],
        "head.norm": ["cls.predictions.transform.LayerNorm"],
    },
    ("BertForPreTraining",),
)
ROBERTA = Family(
    "roberta",
    "Roberta",
    "byte_bpe",
    {"vocab_size": 50265, "pad_token_id": 1},
    "lm_head",
    {"head.dense": ["lm_head.dense"], "head.norm": ["lm_head.layer_norm"]},
)
FAMILIES = {family.name: family for family in (BERT, ROBERTA)}
_NEXT_SENTENCE = {
    "next_sentence.pooler": ["bert.pooler.dense"],
    "next_sentence.classify": ["cls.seq_relationship"],
}


def family_for(folder: ModelFolder) -> Family:
    """Return the family that a model of ours is exported to."""
    return ROBERTA if folder.tokenizers.config.kind == ROBERTA.text else BERT


def settings_of(folder: ForeignFolder) -> tuple[Family, Tree, LibraryText]:
    """Return the family of a folder, its settings, with their defaults, and its tokenizer."""
    family = FAMILIES[folder.config["model_type"]]
    settings = folder.settings(_SETTINGS.defaults | family.defaults)
    return family, settings, LibraryText(folder, family.text)


def numbering_of(text: LibraryText, settings: Tree) -> Numbering:
    """Return which of their ids are our special tokens."""
    ids = (text.marks[mark] for mark in ("pad", "unk", "cls", "sep"))
    return Numbering(settings["vocab_size"], *ids)


def obstacles_to_import(folder: ForeignFolder) -> Iterator[str]:
    """Every reason why a folder of theirs cannot be a model of ours."""
    family, config, text = settings_of(folder)
    known = (f"{family.stem}ForMaskedLM", f"{family.stem}Model", *family.next_sentence)
    yield from _SETTINGS.obstacles(config, *known, *family.labelling)
    for name in ("is_decoder", "add_cross_attention"):
        if config.get(name):
            yield f"{name} is true; a masked model of ours sees all of one text"
    places = config.get("position_embedding_type") or "absolute"
    if places != "absolute":
        yield f"position_embedding_type is {places}; absolute can be read"
    if config.get("architectures") == [*family.next_sentence] and config["type_vocab_size"] < 2:
        yield "type_vocab_size is below 2; to judge pairs of texts, ours must be told apart"
    in_text = [*text.obstacles(config["vocab_size"])]
    given = config["pad_token_id"]  # tokens with this id have no position in RoBERTa
    pad = given if in_text else text.marks["pad"]
    if family is ROBERTA and (type(given) is not int or given != pad):
        yield f"pad_token_id is {given}, not that of the tokenizer; positions are counted by it"
    yield from in_text


def read(folder: ForeignFolder, tensors: ForeignTensors) -> tuple[ModelFolder, Weights]:
    """The description of a model of ours, and its weights, from a folder without obstacles."""
    family, settings, text = settings_of(folder)
    numbering, mask = numbering_of(text, settings), text.marks["mask"]
    prefix = f"{family.name}." if f"{family.name}.{WORDS}" in tensors else ""
    head = any(name.startswith(("cls.predictions.", "lm_head.")) for name in tensors)
    bias, own_bias, output = (family.output + suffix for suffix in _SCORES)
    judges_pairs = "cls.seq_relationship.weight" in tensors
    may_tie = settings["tie_word_embeddings"] or not head
    words = tensors.words(prefix + WORDS, output, numbering, may_tie=may_tie)
    form = {
        "tied_embeddings": "none" if "projection.weight" in words else "all",
        "head": head,
        "output_bias": head,
        "next_sentence": judges_pairs,
        "pooler": not judges_pairs and f"{prefix}pooler.dense.weight" in tensors,
        "head_activation": ACTIVATIONS[settings["hidden_act"]] if family is BERT else "gelu",
        **({} if mask is None else {"mask_id": numbering.ours([mask])[0]}),
    }
    config = build(MaskedConfig, stack_form(family, settings) | form)
    weights = read_stack(family, settings, tensors, prefix) | words
    weights |= tensors.read(_heads(family, config, prefix))
    if head:
        weights["projection.bias"] = our_bias(tensors.first(own_bias, bias), numbering)
        tensors.unread(bias, own_bias)
    return text.describe(config, numbering), weights


def _heads(family: Family, config: MaskedConfig, prefix: str) -> Table:
    """The layers after the blocks."""
    pooler = {"pooler": [f"{prefix}pooler.dense"]} if config.pooler else {}
    last = _NEXT_SENTENCE if config.next_sentence else pooler
    return layers((family.head if config.head else {}) | last)


def read_stack(family: Family, settings: Tree, tensors: ForeignTensors, prefix: str) -> Weights:
    """The weights of embeddings, but for words, and of blocks, under our names."""
    # Older versions stored the positions of a text, and its segments.
    counted = torch.arange(settings["max_position_embeddings"])[None]
    tensors.redundant(f"{prefix}embeddings.position_ids", counted, "the numbers from 0 on")
    tensors.redundant(f"{prefix}embeddings.token_type_ids", counted * 0, "all zeros")
    return tensors.read(_table(family, settings, prefix))


def stack_form(family: Family, config: dict[str, Any]) -> dict[str, Any]:
    """Our settings of embeddings and blocks."""
    return {
        **_SETTINGS.ours(config),
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
    if config.next_sentence and not (family.next_sentence and config.head):
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
    name = f"{family.stem}ForMaskedLM" if config.head else f"{family.stem}Model"
    [name] = family.next_sentence if config.next_sentence else [name]
    settings = stack_settings(family, config, numbering, name)
    weights = stack_weights(family, settings, ours, prefix)
    bias, own_bias, output = (family.output + suffix for suffix in _SCORES)
    scores = output if config.head else None
    weights |= their_words(ours, config, numbering, prefix + WORDS, scores)
    weights |= under_their_names(ours, _heads(family, config, prefix))
    if config.head:
        values = ours.get("projection.bias", torch.zeros(tokenizer.vocab_size))
        names = [bias] if is_tied(config) else [bias, own_bias]
        weights |= {name: their_rows(values, numbering) for name in names}
    files = {
        CONFIG: settings,
        TOKENIZER: token_settings(tokenizer, MARKS | {"mask": config.mask_id}),
    }
    return files, weights, text_files(folder.tokenizers, TEMPLATE, config.mask_id)


def stack_weights(family: Family, settings: Tree, ours: Weights, prefix: str) -> Weights:
    """The weights of embeddings, but for words, and of blocks, under their names."""
    none = torch.zeros(1, settings["hidden_size"])
    given = {"embedding.segments.weight": none, **ours}
    return under_their_names(given, _table(family, settings, prefix))


def stack_settings(
    family: Family, config: EncoderConfig, numbering: Numbering, name: str
) -> dict[str, Any]:
    """Their settings for a model of that class."""
    settings = _SETTINGS.theirs(config, family.name, name) | {
        "vocab_size": numbering.size,
        "type_vocab_size": max(config.segments, 1),
        "tie_word_embeddings": is_tied(config),
        "pad_token_id": numbering.pad or 0,
    }
    longest = config.max_positions + family.first_place(settings)
    return settings | {"max_position_embeddings": longest}
