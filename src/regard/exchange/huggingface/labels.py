"""Taggers and classifiers on the way to BERT's and RoBERTa's heads for labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from regard.exchange.huggingface.bert import (
    ROBERTA,
    TEMPLATE,
    Family,
    obstacles_in_stack,
    stack_settings,
    stack_weights,
    text_settings,
)
from regard.exchange.huggingface.folder import CONFIG, TOKENIZER
from regard.exchange.huggingface.library_text import text_files, unwritable_text
from regard.exchange.huggingface.weights import Weights, their_numbering, under_their_names
from regard.models.base import Model
from regard.models.classifier import ClassifierConfig
from regard.models.folder import ModelFolder, weights_of
from regard.models.labelling import LabelConfig
from regard.models.tagger import TaggerConfig

_CLASSES = {
    ("tagger", "bert"): "BertForTokenClassification",
    ("tagger", "roberta"): "RobertaForTokenClassification",
    ("classifier", "bert"): "BertForSequenceClassification",
    ("classifier", "roberta"): "RobertaForSequenceClassification",
}


def obstacles_to_export(family: Family, folder: ModelFolder, model: Model | None) -> Iterator[str]:
    """Every reason why a tagger or a classifier of ours cannot be one of theirs."""
    config = folder.config
    assert isinstance(config, LabelConfig)
    yield from obstacles_in_stack(config)
    if isinstance(config, TaggerConfig):
        if config.crf:
            yield "model.crf is true; it chooses each label by itself"
        if config.characters:
            yield f"model.characters is {config.characters}; it knows subwords alone"
    if isinstance(config, TaggerConfig | ClassifierConfig) and config.pooling != "first":
        yield f"model.pooling is {config.pooling}; it knows first"
    if isinstance(config, ClassifierConfig) and not config.tanh_layer:
        yield "model.tanh_layer is false; it has such a layer"
    if folder.seen.texts > 1:
        if config.segments < 2:
            yield f"model.segments is {config.segments}; it tells two texts apart by 2"
        if family is ROBERTA:
            yield "its labels are of two texts; RoBERTa writes two end marks between them, ours one"
    yield from unwritable_text(folder.tokenizers)


def written(
    family: Family, folder: ModelFolder, model: Model
) -> tuple[dict[str, Any], Weights, dict[str, bytes]]:
    """Their settings by file, their weights, and the files of the tokenizer; without obstacles."""
    config, tokenizer = folder.config, folder.tokenizers.target
    assert isinstance(config, LabelConfig)
    numbering, prefix = their_numbering(tokenizer), f"{family.name}."
    ours = {name: weight.float().cpu() for name, weight in weights_of(model).items()}
    weights = stack_weights(family, config, ours, numbering, prefix)
    scores = ours["projection.weight"][1:]  # 0 is no label
    bias = ours["projection.bias"][1:] if config.output_bias else scores.new_zeros(len(scores))
    dense, output = f"{prefix}pooler.dense", "classifier"
    if family is ROBERTA and config.kind == "classifier":
        dense, output = "classifier.dense", "classifier.out_proj"
    weights |= {f"{output}.weight": scores.clone(), f"{output}.bias": bias.clone()}
    if config.kind == "classifier":
        weights |= under_their_names(ours, {"dense": [dense]})
    settings = stack_settings(family, config, numbering, _CLASSES[config.kind, family.name])
    labels = dict(enumerate(folder.vocabulary.labels))
    settings |= {
        "id2label": {str(number): label for number, label in labels.items()},
        "label2id": {label: number for number, label in labels.items()},
        "classifier_dropout": config.head_dropout,
    }
    files = {CONFIG: settings, TOKENIZER: text_settings(tokenizer, numbering)}
    return files, weights, text_files(folder.tokenizers, TEMPLATE)
