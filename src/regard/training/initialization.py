"""Initialization of a run's model: random weights, or the weights of a trained model."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from regard.config import Tree
from regard.data.directions import merge_statistics
from regard.errors import ConfigError
from regard.layers.adapters import add_adapters
from regard.models.base import Model, ModelConfig
from regard.models.description import Adapter
from regard.models.folder import (
    ModelFolder,
    load_weights,
    merged_weights,
    named_weights,
    weights_fingerprint,
)
from regard.models.labelling import LabelModel, encoder_settings
from regard.settings_tree import to_tree, tree_differences
from regard.training.config import RunConfig, base_model_path
from regard.training.parameter_groups import freeze

STACK = ("embedding.", "encoder.")  # prefixes of the weights that a new head reuses


def initialize_model(config: RunConfig, folder: ModelFolder) -> tuple[ModelFolder, Model]:
    """The description of the model, and the model before its first update."""
    torch.manual_seed(config.training.seed)
    model = folder.model()
    if config.init_from is not None:
        base = base_model_path(config.init_from, config.out)
        base_folder = ModelFolder.read(base)
        _refuse_incompatible(base, base_folder, folder)
        folder = _inherit_description(folder, base_folder)
        if config.training.lora.rank:  # only the adapters and a new head are trained
            adapter = _adapter_description(config, base)
            add_adapters(model, adapter.lora, _load_base_weights(model, folder, adapter.base_model))
            return dataclasses.replace(folder, adapter=adapter), model
        _load_base_weights(model, folder, base)
    freeze(model, config.training.freeze, config.training.freeze_layers)
    return folder, model


def _load_base_weights(model: Model, folder: ModelFolder, base: Path) -> set[str]:
    """Load the weights of a trained model; returns the names of weights that it does not have."""
    if not _has_new_head(ModelFolder.read(base), folder):
        load_weights(model, merged_weights(base), base)
        return set()
    label_model = cast(LabelModel, model)
    load_stack_weights(label_model, merged_weights(base), base)
    label_model.shrink_label_projection()
    return {name for name in named_weights(model) if not name.startswith(STACK)}


def _adapter_description(config: RunConfig, base: Path) -> Adapter:
    """A new adapter, or that of a resumed run, whose base model must not have changed."""
    out = Path(config.out)
    adapter = ModelFolder.read(out).adapter if any(out.glob("checkpoints/*")) else None
    if adapter is None:
        return Adapter(config.training.lora, base, weights_fingerprint(base))
    if base != out:  # the base model may have been moved
        adapter = dataclasses.replace(adapter, base_model=base)
    adapter.find_base_model(out, weights_fingerprint)
    return adapter


def _has_new_head(old: ModelFolder, new: ModelFolder) -> bool:
    """Whether only embeddings and encoder are reused, since the labels differ."""
    if not new.config.predicts_labels:
        return False
    return type(old.config) is not type(new.config) or (
        old.vocabulary.labels != new.vocabulary.labels
    )


def load_stack_weights(model: LabelModel, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Load the weights of embeddings and encoder; the head is unchanged. `path` is for errors."""
    for prefix, module in zip(STACK, (model.embedding, model.encoder), strict=True):
        weights = {
            name.removeprefix(prefix): tensor
            for name, tensor in tensors.items()
            if name.startswith(prefix)
        }
        load_weights(module, weights, path)


def _inherit_description(folder: ModelFolder, base: ModelFolder) -> ModelFolder:
    """Complete languages, directions and data statistics with those of the base model."""
    languages = {side: name or base.languages[side] for side, name in folder.languages.items()}
    new, old = folder.data_statistics, base.data_statistics
    statistics = dataclasses.replace(
        new,
        longest_source=max(new.longest_source, old.longest_source),
        several_sentences=max(new.several_sentences, old.several_sentences),
        annotated_terms=max(new.annotated_terms, old.annotated_terms),
    )
    directions = tuple(merge_statistics(base.directions, folder.directions))
    return dataclasses.replace(
        folder, languages=languages, data_statistics=statistics, directions=directions
    )


def _refuse_incompatible(base: Path, old: ModelFolder, new: ModelFolder) -> None:
    if old.tokenizers != new.tokenizers:
        raise ConfigError(
            f"The data and {base} use different tokenizers. Prepare the data with "
            f"`regard prepare --tokenizer-from {base}`."
        )
    if old.directions and not new.directions:
        raise ConfigError(
            f"{base} translates {old.direction}, and its sources begin with target tags, but those "
            "of the data do not. Prepare the data with --corpora, which names languages."
        )
    settings = _encoder_architecture if _has_new_head(old, new) else _architecture
    changed = tree_differences(settings(old.config), settings(new.config), "model.")
    if changed:
        raise ConfigError(
            f"{base} has another architecture: {'; '.join(changed)}. Leave out these settings or "
            "the preset that sets them; they are taken from the model."
        )


def _architecture(config: ModelConfig, tree: Tree | None = None) -> Tree:
    """All settings except dropout and, without learned positions, `max_positions`."""
    ignored = {"max_positions"} if config.position_limit is None else set()
    tree = to_tree(config) if tree is None else tree
    return {n: value for n, value in tree.items() if "dropout" not in n and n not in ignored}


def _encoder_architecture(config: ModelConfig) -> Tree:
    """The settings that the encoder depends on; the kind if its encoder cannot be reused."""
    if not config.reusable_encoder:
        return {"kind": config.kind}
    return _architecture(config, encoder_settings(config))
