"""What a run begins with: random weights, or those of a trained model."""

from __future__ import annotations

from pathlib import Path

import torch

from regard.config import Tree, as_tree, differences
from regard.errors import ConfigError
from regard.models.folder import WEIGHTS, ModelFolder, put_weights, read_tensors
from regard.models.transformer import Transformer
from regard.training.config import RunConfig


def begun(config: RunConfig, folder: ModelFolder) -> Transformer:
    """The model before its first update."""
    torch.manual_seed(config.training.seed)
    model = folder.model()
    if config.init_from is not None:
        origin = Path(config.init_from)
        _refuse_another_kind(origin, ModelFolder.read(origin), folder)
        put_weights(model, read_tensors(origin / WEIGHTS)[0], origin / WEIGHTS)
    return model


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
