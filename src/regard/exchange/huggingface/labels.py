"""BERT's and RoBERTa's heads for labels, both ways: our taggers and classifiers."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from regard.config import build
from regard.exchange.huggingface import bert
from regard.exchange.huggingface.bert import FAMILIES, ROBERTA, Family, family_for
from regard.exchange.huggingface.folder import CONFIG, TOKENIZER, ForeignFolder
from regard.exchange.huggingface.library_text import text_files, token_settings, unwritable_text
from regard.exchange.huggingface.weights import (
    ForeignTensors,
    Weights,
    Written,
    layers,
    our_rows,
    their_numbering,
    their_words,
    under_their_names,
)
from regard.models.base import Model
from regard.models.classifier import ClassifierConfig
from regard.models.folder import ModelFolder
from regard.models.labelling import LabelConfig
from regard.models.tagger import TaggerConfig

_KINDS: tuple[type[TaggerConfig], type[ClassifierConfig]] = (TaggerConfig, ClassifierConfig)
_TWO_LABELS = {"0": "LABEL_0", "1": "LABEL_1"}  # their default
_TEXTS = "num_texts"  # of our own: they do not say how many texts have one label


def gives_labels(folder: ForeignFolder) -> bool:
    """Whether a folder of theirs has a head for labels."""
    family = FAMILIES.get(folder.config["model_type"])
    known = family.labelling if family else ()
    return folder.config.get("architectures") in [[name] for name in known]


def obstacles_to_import(folder: ForeignFolder) -> Iterator[str]:
    """Every reason why a folder of theirs cannot be a tagger or a classifier of ours."""
    yield from bert.obstacles_to_import(folder)
    config = folder.config
    if config.get("problem_type") not in (None, "single_label_classification"):
        yield f"problem_type is {config['problem_type']}; ours give one label of several"
    names = config.get("id2label", _TWO_LABELS)
    numbers = [str(number) for number in range(len(names))] if isinstance(names, dict) else None
    if numbers is None or sorted(names, key=str) != sorted(numbers):
        yield "id2label does not number its labels from 0 on"
    elif not all(isinstance(name, str) and name for name in names.values()):
        yield "id2label has labels that are no text"
    elif len(names) < 2 or len({*names.values()}) < len(names):
        yield "id2label needs several different labels"
    if config.get(_TEXTS, 1) not in (1, 2):
        yield f"{_TEXTS} is {config[_TEXTS]}; a label belongs to 1 text, or to 2"


def read(folder: ForeignFolder, tensors: ForeignTensors) -> tuple[ModelFolder, Weights]:
    """The description of a model of ours, and its weights, from a folder without obstacles."""
    family, settings, text = bert.settings_of(folder)
    kind = _KINDS[family.labelling.index(settings["architectures"][0])]
    numbering = bert.numbering_of(text, settings)
    weights = bert.read_stack(family, settings, tensors, prefix := f"{family.name}.")
    weights["embedding.table.weight"] = our_rows(tensors[prefix + bert.WORDS], numbering)
    names = settings.get("id2label", _TWO_LABELS)
    dense, output = _layers(family, kind)
    scores, bias = tensors[f"{output}.weight"], tensors[f"{output}.bias"]
    weights["projection.weight"] = torch.cat([torch.zeros_like(scores[:1]), scores])
    weights["projection.bias"] = torch.cat([torch.zeros_like(bias[:1]), bias])
    form = {"pooling": "first", "head_dropout": settings.get("classifier_dropout")}
    if kind is ClassifierConfig:
        weights |= tensors.read(layers({"dense": [dense]}))
        form["tanh_layer"] = True
    config = build(kind, bert.stack_form(family, settings) | form)
    labels = [names[str(number)] for number in range(len(names))]
    return text.describe(config, numbering, *labels, texts=settings.get(_TEXTS, 1)), weights


def _layers(family: Family, kind: type[LabelConfig]) -> tuple[str, str]:
    """Their names of a classifier's layer with tanh, and of the scores of labels."""
    if family is ROBERTA and kind is ClassifierConfig:
        return "classifier.dense", "classifier.out_proj"
    return f"{family.name}.pooler.dense", "classifier"


def obstacles_to_export(folder: ModelFolder, model: Model | None) -> Iterator[str]:
    """Every reason why a tagger or a classifier of ours cannot be one of theirs."""
    config = folder.config
    assert isinstance(config, LabelConfig)
    yield from bert.obstacles_in_stack(config)
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
        if family_for(folder) is ROBERTA:
            yield "its labels are of two texts; RoBERTa writes two end marks between them, ours one"
    yield from unwritable_text(folder.tokenizers)


def written(folder: ModelFolder, ours: Weights) -> Written:
    """Their settings by file, their weights, and the files of the tokenizer; without obstacles."""
    config, tokenizer = folder.config, folder.tokenizers.target
    assert isinstance(config, LabelConfig)
    family, numbering = family_for(folder), their_numbering(tokenizer)
    settings = bert.stack_settings(
        family, config, numbering, family.labelling[_KINDS.index(type(config))]
    )
    weights = bert.stack_weights(family, settings, ours, prefix := f"{family.name}.")
    weights |= their_words(ours, config, numbering, prefix + bert.WORDS, None)
    scores = ours["projection.weight"][1:]  # 0 is no label
    bias = ours["projection.bias"][1:] if config.output_bias else scores.new_zeros(len(scores))
    dense, output = _layers(family, type(config))
    weights |= {f"{output}.weight": scores.clone(), f"{output}.bias": bias.clone()}
    if config.kind == "classifier":
        weights |= under_their_names(ours, layers({"dense": [dense]}))
    labels = dict(enumerate(folder.vocabulary.labels))
    settings |= {
        "id2label": {str(number): label for number, label in labels.items()},
        "label2id": {label: number for number, label in labels.items()},
        "classifier_dropout": config.head_dropout,
        **({_TEXTS: folder.seen.texts} if folder.seen.texts > 1 else {}),
    }
    files = {CONFIG: settings, TOKENIZER: token_settings(tokenizer, bert.MARKS)}
    return files, weights, text_files(folder.tokenizers, bert.TEMPLATE)
