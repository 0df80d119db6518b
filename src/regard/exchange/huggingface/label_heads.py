"""Import and export of BERT and RoBERTa with classification heads: taggers and classifiers."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from regard.config import build
from regard.exchange.huggingface import bert
from regard.exchange.huggingface.bert import FAMILIES, ROBERTA, Family, family_for
from regard.exchange.huggingface.folder import CONFIG, TOKENIZER, HuggingFaceFolder
from regard.exchange.huggingface.tokenizer_export import (
    tokenizer_export_problems,
    tokenizer_files,
    tokenizer_settings,
)
from regard.exchange.huggingface.weights import (
    ExportedModel,
    HuggingFaceTensors,
    Weights,
    get_id_mapping,
    layer_weights,
    to_hf_embeddings,
    to_hf_weights,
    to_internal_rows,
)
from regard.models.base import Model
from regard.models.classifier import ClassifierConfig
from regard.models.folder import ModelFolder
from regard.models.labelling import LabelConfig
from regard.models.tagger import TaggerConfig

_KINDS: tuple[type[TaggerConfig], type[ClassifierConfig]] = (TaggerConfig, ClassifierConfig)
_DEFAULT_LABELS = {"0": "LABEL_0", "1": "LABEL_1"}
_TEXTS = "num_texts"  # regard's own setting: HuggingFace has none for pairs of texts


def has_label_head(folder: HuggingFaceFolder) -> bool:
    """Whether a HuggingFace folder has a classification head."""
    family = FAMILIES.get(folder.config["model_type"])
    known = family.labelling if family else ()
    return folder.config.get("architectures") in [[name] for name in known]


def import_problems(folder: HuggingFaceFolder) -> Iterator[str]:
    """Yield every reason why a HuggingFace folder cannot be imported."""
    yield from bert.import_problems(folder)
    config = folder.config
    if config.get("problem_type") not in (None, "single_label_classification"):
        yield (f"problem_type is {config['problem_type']}; supported: single_label_classification")
    names = config.get("id2label", _DEFAULT_LABELS)
    numbers = [str(number) for number in range(len(names))] if isinstance(names, dict) else None
    if numbers is None or sorted(names, key=str) != sorted(numbers):
        yield "id2label does not number its labels from 0 on"
    elif not all(isinstance(name, str) and name for name in names.values()):
        yield "id2label has labels that are not strings"
    elif len(names) < 2 or len({*names.values()}) < len(names):
        yield "id2label must have at least two different labels"
    if config.get(_TEXTS, 1) not in (1, 2):
        yield f"{_TEXTS} is {config[_TEXTS]}; supported: 1 and 2"


def import_model(
    folder: HuggingFaceFolder, tensors: HuggingFaceTensors
) -> tuple[ModelFolder, Weights]:
    """Return the description and weights of the model in a folder without problems."""
    family, settings, importer = bert.read_settings(folder)
    kind = _KINDS[family.labelling.index(settings["architectures"][0])]
    id_mapping = bert.get_imported_mapping(importer, settings)
    weights = bert.import_stack(family, settings, tensors, prefix := f"{family.name}.")
    weights["embedding.table.weight"] = to_internal_rows(
        tensors[prefix + bert.WORD_EMBEDDINGS], id_mapping
    )
    names = settings.get("id2label", _DEFAULT_LABELS)
    dense, output = _layers(family, kind)
    scores, bias = tensors[f"{output}.weight"], tensors[f"{output}.bias"]
    weights["projection.weight"] = torch.cat([torch.zeros_like(scores[:1]), scores])
    weights["projection.bias"] = torch.cat([torch.zeros_like(bias[:1]), bias])
    fields = {"pooling": "first", "head_dropout": settings.get("classifier_dropout")}
    if kind is ClassifierConfig:
        weights |= tensors.convert(layer_weights({"dense": [dense]}))
        fields["tanh_layer"] = True
    config = build(kind, bert.stack_fields(family, settings) | fields)
    labels = [names[str(number)] for number in range(len(names))]
    return importer.model_folder(
        config, id_mapping, *labels, texts=settings.get(_TEXTS, 1)
    ), weights


def _layers(family: Family, kind: type[LabelConfig]) -> tuple[str, str]:
    """Return HuggingFace's names of a classifier's tanh layer, and of the output layer."""
    if family is ROBERTA and kind is ClassifierConfig:
        return "classifier.dense", "classifier.out_proj"
    return f"{family.name}.pooler.dense", "classifier"


def export_problems(folder: ModelFolder, model: Model | None) -> Iterator[str]:
    """Yield every reason why a tagger or classifier cannot be exported."""
    config = folder.config
    assert isinstance(config, LabelConfig)
    yield from bert.stack_export_problems(config)
    if isinstance(config, TaggerConfig):
        if config.crf:
            yield "model.crf is true; supported: false"
        if config.char_embedding_dim:
            yield f"model.char_embedding_dim is {config.char_embedding_dim}; supported: 0"
    if isinstance(config, TaggerConfig | ClassifierConfig) and config.pooling != "first":
        yield f"model.pooling is {config.pooling}; supported: first"
    if isinstance(config, ClassifierConfig) and not config.tanh_layer:
        yield "model.tanh_layer is false; supported: true"
    if folder.data_statistics.texts > 1:
        if config.num_segments < 2:
            yield f"model.num_segments is {config.num_segments}; pairs of texts require 2"
        if family_for(folder) is ROBERTA:
            yield "it classifies pairs of texts, between which RoBERTa has two EOS, regard one"
    yield from tokenizer_export_problems(folder.tokenizers)


def export_model(folder: ModelFolder, internal: Weights) -> ExportedModel:
    """Return HuggingFace's settings by file, weights, and tokenizer files."""
    config, tokenizer = folder.config, folder.tokenizers.target
    assert isinstance(config, LabelConfig)
    family, id_mapping = family_for(folder), get_id_mapping(tokenizer)
    settings = bert.encoder_settings(
        family, config, id_mapping, family.labelling[_KINDS.index(type(config))]
    )
    weights = bert.stack_weights(family, settings, internal, prefix := f"{family.name}.")
    weights |= to_hf_embeddings(internal, config, id_mapping, prefix + bert.WORD_EMBEDDINGS, None)
    scores = internal["projection.weight"][1:]  # without row 0, which is no label
    bias = internal["projection.bias"][1:] if config.output_bias else scores.new_zeros(len(scores))
    dense, output = _layers(family, type(config))
    weights |= {f"{output}.weight": scores.clone(), f"{output}.bias": bias.clone()}
    if config.kind == "classifier":
        weights |= to_hf_weights(internal, layer_weights({"dense": [dense]}))
    labels = dict(enumerate(folder.vocabulary.labels))
    settings |= {
        "id2label": {str(number): label for number, label in labels.items()},
        "label2id": {label: number for number, label in labels.items()},
        "classifier_dropout": config.head_dropout,
        **({_TEXTS: folder.data_statistics.texts} if folder.data_statistics.texts > 1 else {}),
    }
    files = {CONFIG: settings, TOKENIZER: tokenizer_settings(tokenizer, bert.SPECIAL_TOKEN_IDS)}
    return files, weights, tokenizer_files(folder.tokenizers, bert.TEMPLATE)
