"""Import and export of BERT and RoBERTa: regard's masked language model.

They differ in names, in the layers before the output projection, and in position ids: RoBERTa's
begin after the id of PAD.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from regard.config import Tree, build
from regard.exchange.huggingface.folder import CONFIG, TOKENIZER, HuggingFaceFolder
from regard.exchange.huggingface.settings import ACTIVATIONS, SettingsMap, block_export_problems
from regard.exchange.huggingface.tokenizer_classes import TokenizerImporter
from regard.exchange.huggingface.tokenizer_export import (
    tokenizer_export_problems,
    tokenizer_files,
    tokenizer_settings,
)
from regard.exchange.huggingface.weights import (
    IDENTITY,
    ExportedModel,
    HuggingFaceTensors,
    TensorTransform,
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
from regard.models.folder import ModelFolder
from regard.models.labelling import LabelConfig
from regard.models.masked import MaskedConfig
from regard.text.config import ImportedTokenizerKind
from regard.text.id_mapping import IdMapping
from regard.text.special import SPECIAL

_SETTINGS = SettingsMap(
    {
        "num_layers": ("num_hidden_layers", 12),
        "d_model": ("hidden_size", 768),
        "num_heads": ("num_attention_heads", 12),
        "ffn_dim": ("intermediate_size", 3072),
        "activation": ("hidden_act", "gelu"),
        "dropout": ("hidden_dropout_prob", 0.1),
        "attention_dropout": ("attention_probs_dropout_prob", 0.1),
        "norm_eps": ("layer_norm_eps", 1e-12),
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
WORD_EMBEDDINGS, _POSITION_EMBEDDINGS, _TOKEN_TYPE_EMBEDDINGS = (
    f"embeddings.{name}_embeddings.weight" for name in ("word", "position", "token_type")
)
_PROJECTION = (".bias", ".decoder.bias", ".decoder.weight")
TEMPLATE = "<s> $A </s>"  # special tokens around a text
SPECIAL_TOKEN_IDS = {"pad": SPECIAL.pad, "unk": SPECIAL.unk, "cls": SPECIAL.bos, "sep": SPECIAL.eos}
EncoderConfig = MaskedConfig | LabelConfig


@dataclass(frozen=True)
class Family:
    """The differences between BERT and RoBERTa."""

    name: str  # model_type
    class_prefix: str  # prefix of class names
    tokenizer_kind: ImportedTokenizerKind
    defaults: dict[str, int]
    output: str  # prefix of the output projection
    head: dict[str, list[str]]  # layers before the output projection
    next_sentence: tuple[str, ...] = ()  # class with next sentence prediction

    @property
    def labelling(self) -> tuple[str, str]:
        """The classes for token and sequence classification."""
        return (
            f"{self.class_prefix}ForTokenClassification",
            f"{self.class_prefix}ForSequenceClassification",
        )

    def position_offset(self, config: dict[str, Any]) -> int:
        """Return the row of the first position in the table."""
        return int(config["pad_token_id"]) + 1 if self.name == "roberta" else 0


def _weight_map(family: Family, settings: Tree, prefix: str) -> WeightMap:
    """Return the map of embeddings, except of tokens, and blocks."""
    offset = family.position_offset(settings)
    positions = TensorTransform(
        lambda table: table[offset:],
        lambda table: torch.cat([table.new_zeros(offset, table.shape[1]), table]),
    )
    blocks = settings["num_hidden_layers"]
    return {
        "embedding.positions.table.weight": ([prefix + _POSITION_EMBEDDINGS], positions),
        "embedding.segments.weight": ([prefix + _TOKEN_TYPE_EMBEDDINGS], IDENTITY),
        **layer_weights({"embedding.norm": [f"{prefix}embeddings.LayerNorm"]}),
        **for_each_block("encoder.blocks", f"{prefix}encoder.layer", blocks, layer_weights(_BLOCK)),
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
    """Return the family to which a model is exported."""
    return ROBERTA if folder.tokenizers.config.kind == ROBERTA.tokenizer_kind else BERT


def read_settings(folder: HuggingFaceFolder) -> tuple[Family, Tree, TokenizerImporter]:
    """Return the family of a folder, its settings with defaults, and its tokenizer importer."""
    family = FAMILIES[folder.config["model_type"]]
    settings = folder.settings(_SETTINGS.defaults | family.defaults)
    return family, settings, TokenizerImporter(folder, family.tokenizer_kind)


def get_imported_mapping(importer: TokenizerImporter, settings: Tree) -> IdMapping:
    """Return the mapping from HuggingFace's token ids."""
    ids = (importer.special_token_ids[name] for name in ("pad", "unk", "cls", "sep"))
    return IdMapping(settings["vocab_size"], *ids)


def import_problems(folder: HuggingFaceFolder) -> Iterator[str]:
    """Yield every reason why a HuggingFace folder cannot be imported."""
    family, config, importer = read_settings(folder)
    known = (
        f"{family.class_prefix}ForMaskedLM",
        f"{family.class_prefix}Model",
        *family.next_sentence,
    )
    yield from _SETTINGS.import_problems(config, *known, *family.labelling)
    for name in ("is_decoder", "add_cross_attention"):
        if config.get(name):
            yield f"{name} is true; supported: bidirectional encoders"
    position_type = config.get("position_embedding_type") or "absolute"
    if position_type != "absolute":
        yield f"position_embedding_type is {position_type}; supported: absolute"
    if config.get("architectures") == [*family.next_sentence] and config["type_vocab_size"] < 2:
        yield "type_vocab_size is below 2; next sentence prediction requires 2"
    tokenizer_problems = [*importer.import_problems(config["vocab_size"])]
    pad_id = config["pad_token_id"]  # tokens with this id have no position in RoBERTa
    expected = pad_id if tokenizer_problems else importer.special_token_ids["pad"]
    if family is ROBERTA and (type(pad_id) is not int or pad_id != expected):
        yield f"pad_token_id is {pad_id}, which is not the tokenizer's id of PAD ({expected})"
    yield from tokenizer_problems


def import_model(
    folder: HuggingFaceFolder, tensors: HuggingFaceTensors
) -> tuple[ModelFolder, Weights]:
    """Return the description and weights of the model in a folder without problems."""
    family, settings, importer = read_settings(folder)
    id_mapping, mask = get_imported_mapping(importer, settings), importer.special_token_ids["mask"]
    prefix = f"{family.name}." if f"{family.name}.{WORD_EMBEDDINGS}" in tensors else ""
    head = any(name.startswith(("cls.predictions.", "lm_head.")) for name in tensors)
    bias, decoder_bias, output = (family.output + suffix for suffix in _PROJECTION)
    next_sentence = "cls.seq_relationship.weight" in tensors
    may_tie = settings["tie_word_embeddings"] or not head
    embedding_weights = tensors.embeddings(
        prefix + WORD_EMBEDDINGS, output, id_mapping, may_tie=may_tie
    )
    fields = {
        "tied_embeddings": "none" if "projection.weight" in embedding_weights else "all",
        "head": head,
        "output_bias": head,
        "next_sentence": next_sentence,
        "pooler": not next_sentence and f"{prefix}pooler.dense.weight" in tensors,
        "head_activation": ACTIVATIONS[settings["hidden_act"]] if family is BERT else "gelu",
        **({} if mask is None else {"mask_id": id_mapping.to_internal([mask])[0]}),
    }
    config = build(MaskedConfig, stack_fields(family, settings) | fields)
    weights = import_stack(family, settings, tensors, prefix) | embedding_weights
    weights |= tensors.convert(_heads(family, config, prefix))
    if head:
        weights["projection.bias"] = to_internal_bias(tensors.first(decoder_bias, bias), id_mapping)
        tensors.ignore(bias, decoder_bias)
    return importer.model_folder(config, id_mapping), weights


def _heads(family: Family, config: MaskedConfig, prefix: str) -> WeightMap:
    """Return the map of the layers after the blocks."""
    pooler = {"pooler": [f"{prefix}pooler.dense"]} if config.pooler else {}
    last = _NEXT_SENTENCE if config.next_sentence else pooler
    return layer_weights((family.head if config.head else {}) | last)


def import_stack(
    family: Family, settings: Tree, tensors: HuggingFaceTensors, prefix: str
) -> Weights:
    """Convert the weights of embeddings, except of tokens, and of blocks."""
    # Older versions stored position ids and token type ids.
    positions = torch.arange(settings["max_position_embeddings"])[None]
    tensors.check_redundant(f"{prefix}embeddings.position_ids", positions, "the numbers from 0 on")
    tensors.check_redundant(f"{prefix}embeddings.token_type_ids", positions * 0, "all zeros")
    return tensors.convert(_weight_map(family, settings, prefix))


def stack_fields(family: Family, config: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of embeddings and blocks for regard's config."""
    return {
        **_SETTINGS.from_hf(config),
        "positional_encoding": "learned",
        "max_positions": config["max_position_embeddings"] - family.position_offset(config),
        "embedding_norm": True,
        "scale_embedding": False,
        "num_segments": config["type_vocab_size"],
    }


def export_problems(folder: ModelFolder, model: Model | None) -> Iterator[str]:
    """Yield every reason why a model cannot be exported."""
    config, family = folder.config, family_for(folder)
    assert isinstance(config, MaskedConfig)
    yield from stack_export_problems(config)
    supported = config.activation if family is BERT else "gelu"
    if config.head and config.head_activation != supported:
        yield f"model.head_activation is {config.head_activation}; supported: {supported}"
    if config.next_sentence and not (family.next_sentence and config.head):
        yield "model.next_sentence is true; supported only for BERT with model.head=true"
    yield from tokenizer_export_problems(folder.tokenizers)


def stack_export_problems(config: EncoderConfig) -> Iterator[str]:
    """Yield every reason why the embeddings and blocks of a model cannot be exported."""
    required = {
        "positional_encoding": "learned",
        "norm_order": "post",
        "decoder_start_token": "bos",
    }
    yield from block_export_problems(config, **required, embedding_norm=True)
    if config.final_norm:
        yield "model.final_norm is true; supported: false"


def export_model(folder: ModelFolder, internal: Weights) -> ExportedModel:
    """Return HuggingFace's settings by file, weights, and tokenizer files."""
    config, tokenizer = folder.config, folder.tokenizers.target
    assert isinstance(config, MaskedConfig)
    family, id_mapping = family_for(folder), get_id_mapping(tokenizer)
    prefix = f"{family.name}." if config.head else ""
    name = f"{family.class_prefix}ForMaskedLM" if config.head else f"{family.class_prefix}Model"
    [name] = family.next_sentence if config.next_sentence else [name]
    settings = encoder_settings(family, config, id_mapping, name)
    weights = stack_weights(family, settings, internal, prefix)
    bias, decoder_bias, output = (family.output + suffix for suffix in _PROJECTION)
    projection = output if config.head else None
    weights |= to_hf_embeddings(internal, config, id_mapping, prefix + WORD_EMBEDDINGS, projection)
    weights |= to_hf_weights(internal, _heads(family, config, prefix))
    if config.head:
        values = internal.get("projection.bias", torch.zeros(tokenizer.vocab_size))
        names = [bias] if is_tied(config) else [bias, decoder_bias]
        weights |= {name: to_hf_rows(values, id_mapping) for name in names}
    files = {
        CONFIG: settings,
        TOKENIZER: tokenizer_settings(tokenizer, SPECIAL_TOKEN_IDS | {"mask": config.mask_id}),
    }
    return files, weights, tokenizer_files(folder.tokenizers, TEMPLATE, config.mask_id)


def stack_weights(family: Family, settings: Tree, internal: Weights, prefix: str) -> Weights:
    """Return HuggingFace's weights of embeddings, except of tokens, and of blocks."""
    zeros = torch.zeros(1, settings["hidden_size"])
    with_segments = {"embedding.segments.weight": zeros, **internal}
    return to_hf_weights(with_segments, _weight_map(family, settings, prefix))


def encoder_settings(
    family: Family, config: EncoderConfig, id_mapping: IdMapping, name: str
) -> dict[str, Any]:
    """Return HuggingFace's settings for the model class `name`."""
    settings = _SETTINGS.to_hf(config, family.name, name) | {
        "vocab_size": id_mapping.size,
        "type_vocab_size": max(config.num_segments, 1),
        "tie_word_embeddings": is_tied(config),
        "pad_token_id": id_mapping.pad or 0,
    }
    max_positions = config.max_positions + family.position_offset(settings)
    return settings | {"max_position_embeddings": max_positions}
