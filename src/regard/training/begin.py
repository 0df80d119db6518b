"""What a run begins with: random weights, or those of a trained model."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from regard.config import Tree, as_tree, differences
from regard.errors import ConfigError
from regard.layers.adapters import adapt
from regard.models.base import Model, ModelConfig
from regard.models.description import Adapter
from regard.models.folder import (
    ModelFolder,
    put_weights,
    weights_fingerprint,
    weights_of,
    whole_weights,
)
from regard.models.labelling import LabelModel, stack_settings
from regard.training.config import RunConfig, origin_of
from regard.training.parts import freeze

STACK = ("embedding.", "encoder.")  # what all kinds that lend theirs have in common


def begun(config: RunConfig, folder: ModelFolder) -> tuple[ModelFolder, Model]:
    """The description and the weights of the model before its first update."""
    torch.manual_seed(config.training.seed)
    model = folder.model()
    if config.init_from is not None:
        origin = origin_of(config.init_from, config.out)
        old = ModelFolder.read(origin)
        _refuse_another_kind(origin, old, folder)
        folder = _heir(folder, old)
        if config.training.lora.rank:  # weights stay as they are; adapters and a new head learn
            adapter = _adapter(config, origin)
            adapt(model, adapter.lora, _put_origin(model, folder, adapter.origin))
            return dataclasses.replace(folder, adapter=adapter), model
        _put_origin(model, folder, origin)
    freeze(model, config.training.freeze, config.training.freeze_blocks)
    return folder, model


def _put_origin(model: Model, folder: ModelFolder, origin: Path) -> set[str]:
    """Give a model the weights of a trained one; the names of those that it did not have."""
    if not _has_new_head(ModelFolder.read(origin), folder):
        put_weights(model, whole_weights(origin), origin)
        return set()
    labelling = cast(LabelModel, model)
    put_stack(labelling, whole_weights(origin), origin)
    labelling.begin_unsure()
    return {name for name in weights_of(model) if not name.startswith(STACK)}


def _adapter(config: RunConfig, origin: Path) -> Adapter:
    """A new one; a run that is under way keeps its own, whose origin must not change."""
    out = Path(config.out)
    known = ModelFolder.read(out).adapter if any(out.glob("checkpoints/*")) else None
    if known is None:
        return Adapter(config.training.lora, origin, weights_fingerprint(origin))
    if origin != out:  # where it is said to be now
        known = dataclasses.replace(known, origin=origin)
    known.checked(out, weights_fingerprint)
    return known


def _has_new_head(old: ModelFolder, new: ModelFolder) -> bool:
    """Whether only the stack is taken over: what the labels are is another question now."""
    if not new.config.gives_labels:
        return False
    return type(old.config) is not type(new.config) or (
        old.vocabulary.labels != new.vocabulary.labels
    )


def put_stack(model: LabelModel, tensors: Mapping[str, Tensor], origin: Path) -> None:
    """Copy the weights of a stack and its embeddings into a model whose head stays as it is."""
    for name, part in zip(STACK, (model.embedding, model.encoder), strict=True):
        own = {n.removeprefix(name): tensor for n, tensor in tensors.items() if n.startswith(name)}
        put_weights(part, own, origin)


def _heir(folder: ModelFolder, old: ModelFolder) -> ModelFolder:
    """What the new data does not say of the model is as it was before."""
    languages = {side: name or old.languages[side] for side, name in folder.languages.items()}
    seen = dataclasses.replace(
        folder.seen,
        longest_source=max(folder.seen.longest_source, old.seen.longest_source),
        several_sentences=max(folder.seen.several_sentences, old.seen.several_sentences),
    )
    return dataclasses.replace(folder, languages=languages, seen=seen)


def _refuse_another_kind(origin: Path, old: ModelFolder, new: ModelFolder) -> None:
    if old.tokenizers != new.tokenizers:
        raise ConfigError(
            f"The data was cut by another tokenizer than {origin} knows. Prepare it with "
            f"`regard prepare --tokenizer-from {origin}`."
        )
    form = _stack if _has_new_head(old, new) else _form
    changed = differences(form(old.config), form(new.config), "model.")
    if changed:
        raise ConfigError(
            f"{origin} has another form: {'; '.join(changed)}. Leave these settings out, or the "
            "preset that has them; they come with the model."
        )


def _form(config: ModelConfig, tree: Tree | None = None) -> Tree:
    """The settings that weights depend on: not dropouts, nor a length that is only a limit."""
    free = {"max_positions"} if config.places is None else set()
    tree = as_tree(config) if tree is None else tree
    return {n: value for n, value in tree.items() if "dropout" not in n and n not in free}


def _stack(config: ModelConfig) -> Tree:
    """Those that the weights of the stack depend on, and the kind if it has none to lend."""
    if not config.shares_stack:
        return {"kind": config.kind}
    return _form(config, stack_settings(config))
