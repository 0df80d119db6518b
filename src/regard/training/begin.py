"""What a run begins with: random weights, or those of a trained model."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import torch

from regard.config import Tree, as_tree, differences
from regard.data.store import Store
from regard.errors import ConfigError
from regard.layers.adapters import adapt
from regard.models.adapter import Adapter
from regard.models.base import AutoregressiveModel, Model
from regard.models.folder import (
    ModelFolder,
    Training,
    load_model,
    put_weights,
    weights_fingerprint,
    whole_weights,
)
from regard.training.config import RunConfig, origin_of
from regard.training.parts import freeze


def begun(config: RunConfig, store: Store) -> tuple[ModelFolder, Model]:
    """The description and the weights of the model before its first update."""
    torch.manual_seed(config.training.seed)
    folder = ModelFolder.for_store(config.model, store)
    model = folder.model()
    if config.init_from is not None:
        origin = origin_of(config.init_from, config.out)
        old = ModelFolder.read(origin)
        _refuse_another_kind(origin, old, folder)
        folder = _heir(folder, old)
        if config.training.lora.rank:
            return _adapted(config, origin, folder, model)
        put_weights(model, whole_weights(origin), origin)
    freeze(model, config.training.freeze, config.training.freeze_blocks)
    return folder, model


def _adapted(
    config: RunConfig, origin: Path, folder: ModelFolder, model: Model
) -> tuple[ModelFolder, Model]:
    """The weights of a trained model, which stay as they are, and adapters that learn."""
    adapter = _adapter(config, origin)
    put_weights(model, whole_weights(adapter.origin), adapter.origin)
    adapt(model, adapter.lora)
    return dataclasses.replace(folder, adapter=adapter), model


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


def begun_teacher(
    config: RunConfig, folder: ModelFolder, device: torch.device
) -> AutoregressiveModel | None:
    """The model that judges what this one writes, if one is named."""
    if config.training.teacher is None:
        return None
    path = Path(config.training.teacher)
    own = ModelFolder.read(path)
    if own.tokenizers != folder.tokenizers:
        raise ConfigError(
            f"{path} cuts text in another way than the data, so it cannot judge what is written. "
            "Name a training.teacher that was trained on data prepared likewise."
        )
    _, model = load_model(path, device, own)
    if not isinstance(model, AutoregressiveModel):
        raise ConfigError(f"{path} writes all words at once. A teacher writes word by word.")
    return model.requires_grad_(False)


def _heir(folder: ModelFolder, old: ModelFolder) -> ModelFolder:
    """What the new data does not say of the model is as it was before."""
    languages = {side: name or old.languages[side] for side, name in folder.languages.items()}
    seen = Training(
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
    changed = differences(_form(old), _form(new), "model.")
    if changed:
        raise ConfigError(
            f"{origin} has another form: {'; '.join(changed)}. Leave these settings out, or the "
            "preset that has them; they come with the model."
        )


def _form(folder: ModelFolder) -> Tree:
    """The settings that weights depend on: all but the dropouts."""
    tree = as_tree(folder.config)
    return {name: value for name, value in tree.items() if "dropout" not in name}
