"""Reading and writing of model folders, which are self-contained.

config.json            format, settings of the model, special tokens, languages, data statistics
tokenizer.model        or source.model and target.model
model.safetensors      the weights; nothing is unpickled. Its metadata has the settings, labels and
                       tokenizer of the weights, which shapes do not identify.

A checkpoint, `checkpoints/00001000` in such a folder, has the weights of another step. An adapter
folder only has the trained weights and the path of the base model.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.config import Tree
from regard.data.model_text import AVERAGE as AVERAGE
from regard.data.model_text import CONFIG as CONFIG
from regard.data.model_text import (
    FORMAT,
    READER,
    ModelText,
    config_folder,
    read_description,
    text_side,
    weights_file,
)
from regard.data.model_text import WEIGHTS as WEIGHTS
from regard.data.model_text import DataStatistics as DataStatistics
from regard.data.store import Store
from regard.errors import ConfigError, DataError, ModelError
from regard.files import atomic_file, write_json
from regard.layers.adapters import add_adapters, is_adapted, merge_adapters
from regard.models import meta_model, new_model, uninitialized_model
from regard.models.base import Model, ModelConfig
from regard.models.description import Adapter, Identity, model_config, refuse_other_identity
from regard.models.description import upgrade_settings as upgrade_settings
from regard.models.tensor_files import (
    MAX_WEIGHT,
    TensorSpec,
    read_metadata,
    read_tensor_specs,
    refuse_mismatched_tensors,
    refuse_nonfinite,
    tensor_specs,
)
from regard.models.tensor_files import read_tensors as read_tensors
from regard.models.tensor_files import write_tensors as write_tensors
from regard.regular_files import fingerprint, read_regular_file
from regard.settings_tree import to_tree
from regard.text.folder import compute_tokenizer_fingerprint
from regard.text.special import SPECIAL


@dataclass(frozen=True)
class ModelFolder(ModelText):
    """The content of a model folder without the weights."""

    config: ModelConfig
    adapter: Adapter | None = None

    @property
    def text(self) -> ModelText:
        """The text side alone, which worker processes unpickle without PyTorch."""
        return ModelText(**{f.name: getattr(self, f.name) for f in dataclasses.fields(ModelText)})

    def write(self, folder: Path) -> None:
        """Write everything but the weights; `config.json` last, since it completes the folder."""
        for name, content in self.tokenizers.files().items():
            with atomic_file(folder / name) as temporary:
                temporary.write_bytes(content)
        write_json(folder / CONFIG, self._description(folder))

    def _description(self, folder: Path) -> Tree:
        adapter = {"adapter": self.adapter.to_tree(folder)} if self.adapter else {}
        directions = [to_tree(direction) for direction in self.directions]
        context = to_tree(self.document_context) if self.document_context.size else {}
        tokenizer = to_tree(self.tokenizers.config)
        return {
            "format": FORMAT,
            "model": to_tree(self.config),
            "vocabulary": to_tree(self.vocabulary),
            "tokenizer": tokenizer,
            "tokenizer_fingerprint": compute_tokenizer_fingerprint(
                self.tokenizers.files(), tokenizer
            ),
            "special_tokens": to_tree(SPECIAL),
            "languages": self.languages,
            "data_statistics": to_tree(self.data_statistics),
            **({"directions": directions} if directions else {}),
            **({"document_context": context} if context else {}),
            **adapter,
        }

    def weights_metadata(self) -> dict[str, str]:
        """The metadata of the weights: all settings but the languages, which users may change."""
        return self._identity().metadata()

    def _identity(self) -> Identity:
        tokenizer = compute_tokenizer_fingerprint(self.tokenizers.files(), {})
        lora = self.adapter.lora if self.adapter else None
        return Identity(
            to_tree(self.config), self.vocabulary, self.data_statistics, tokenizer, lora
        )

    def refuse_other_weights(self, path: Path) -> None:
        """Raise an error if the metadata of weights belong to another model."""
        refuse_other_identity(self._identity(), path)

    @staticmethod
    def read(folder: Path) -> ModelFolder:
        """Read a model folder, or that of a checkpoint."""
        folder = config_folder(folder)
        description, tree = read_description(folder)
        text = text_side(folder, description, tree)
        return ModelFolder(
            **vars(text),
            config=model_config(description.model, folder / CONFIG),
            adapter=Adapter.of(description.adapter, folder) if description.adapter else None,
        )

    def model(self) -> Model:
        """A randomly initialized model."""
        return new_model(self.config, self.vocabulary)


def read_folder_for_task(folder: Path, task: str, action: str, preset: str = "") -> ModelFolder:
    """Read a model folder; raises an error if its model is for another task.

    `action` is what only models of the task do, such as "tags words", for the message.
    """
    description = ModelFolder.read(folder)
    if description.config.task != task:
        raise ConfigError(
            f"{folder} is a model for {description.config.task.replace('_', ' ')} (model kind "
            f"{description.config.kind!r}), and only a model for {task.replace('_', ' ')} "
            f"{action}. "
            + (f"See `regard train --preset {preset}`." if preset else "Check the path.")
        )
    return description


def load_model(
    folder: Path, device: torch.device, description: ModelFolder | None = None
) -> tuple[ModelFolder, Model]:
    """Load the model of a folder in evaluation mode; `description`: if it has been read already.

    An adapter is merged into its base model.
    """
    description = description or ModelFolder.read(folder)
    path = weights_file(folder)
    description.refuse_other_weights(path)
    if description.adapter is None:
        _refuse_other_shape(description, read_tensor_specs(path), path)
        model = uninitialized_model(description.config, description.vocabulary)
        load_weights(model, inference_weights(folder), path)
    else:
        model = _load_with_adapter(description, description.adapter, folder)
    return dataclasses.replace(description, adapter=None), model.to(device).eval()


def _load_with_adapter(description: ModelFolder, adapter: Adapter, folder: Path) -> Model:
    """The base model of an adapter, with the adapter merged."""
    refuse_circular_adapter(config_folder(folder))
    trained = inference_weights(folder)
    ranks = {tensor.shape[0] for name, tensor in trained.items() if name.endswith(".down")}
    if ranks != {adapter.lora.rank}:
        raise READER.content_error(
            config_folder(folder) / CONFIG, f"adapter.lora.rank differs from {folder / WEIGHTS}"
        )
    base_model = adapter.find_base_model(config_folder(folder), weights_fingerprint)
    available = {**merged_weights(base_model), **trained}
    names = named_weights(meta_model(description.config, description.vocabulary))
    weights = {name: available[name] for name in names if name in available}
    _refuse_other_shape(description, tensor_specs(weights), base_model / WEIGHTS)
    model = uninitialized_model(description.config, description.vocabulary)
    load_weights(model, weights, base_model / WEIGHTS)
    add_adapters(model, adapter.lora, {name for name in names if name in trained})
    load_weights(model, trained, folder / WEIGHTS)
    merge_adapters(model)
    refuse_nonfinite(named_weights(model), folder)
    return model


def refuse_circular_adapter(folder: Path) -> None:
    """Raise an error if an adapter is, directly or indirectly, its own base model."""
    visited: set[Path] = set()
    adapter = ModelFolder.read(folder).adapter
    while adapter is not None and adapter.base_model.is_dir():
        path = adapter.base_model.resolve()
        if path in visited or path == folder.resolve():
            raise ModelError(
                f"{folder / CONFIG}: the base model of this adapter is the adapter itself. Correct "
                "`origin`, or copy the whole folder again."
            )
        visited.add(path)
        adapter = ModelFolder.read(path).adapter


def _refuse_other_shape(
    description: ModelFolder, actual: Mapping[str, TensorSpec], path: Path
) -> None:
    """Raise an error if the shapes of weights are not those of the model, before it is built."""
    settings = to_tree(description.config)
    layers = max((settings[name] for name in settings if name.endswith("layers")), default=0)
    if layers > len(actual):  # building very many blocks is slow, even on the meta device
        raise ModelError(
            f"{path} has {len(actual)} weights, too few for a model of {layers} layers, so it "
            f"does not belong to its {CONFIG}. Copy the whole folder again."
        )
    model = meta_model(description.config, description.vocabulary)
    refuse_mismatched_tensors(actual, tensor_specs(named_weights(model)), path)


def merged_weights(folder: Path) -> dict[str, Tensor]:
    """All weights of a folder; those of an adapter are merged into its base model's."""
    description = ModelFolder.read(folder)
    if description.adapter is None:
        path = weights_file(folder)
        description.refuse_other_weights(path)
        _refuse_other_shape(description, read_tensor_specs(path), path)
        return inference_weights(folder)
    return named_weights(load_model(folder, torch.device("cpu"), description)[1])


def inference_weights(folder: Path) -> dict[str, Tensor]:
    """The weights for inference: the moving average of a checkpoint, if any, else its weights."""
    return read_tensors(weights_file(folder))[0]


def weights_fingerprint(folder: Path) -> str:
    """A fingerprint of the inference weights."""
    path = weights_file(folder)
    read_tensor_specs(path)  # raises an error if the file is missing or damaged
    return fingerprint([read_regular_file(path)])


def named_weights(model: nn.Module) -> dict[str, Tensor]:
    """The parameters and persistent buffers by name, shared ones once.

    For a model with adapters, only the trained parameters: the others are those of its base model.
    """
    adapted = is_adapted(model)
    parameters = ((n, w) for n, w in model.named_parameters() if w.requires_grad or not adapted)
    persistent = model.state_dict().keys()
    buffers = ((n, b) for n, b in model.named_buffers() if n in persistent)
    return {name: tensor.detach() for name, tensor in itertools.chain(parameters, buffers)}


@torch.no_grad()
def load_weights(model: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Copy weights into a model; all names, shapes and types must match."""
    weights = named_weights(model)
    refuse_mismatched_tensors(tensor_specs(tensors), tensor_specs(weights), path)
    for name, parameter in weights.items():
        parameter.copy_(tensors[name])
    refuse_nonfinite(weights, path, MAX_WEIGHT)  # after the copy: float64 may overflow float32


def read_weights_metadata(folder: Path) -> dict[str, str]:
    """The metadata of a folder's weights; empty if there are no weights."""
    path = folder / WEIGHTS
    if not path.is_file():
        return {}
    return read_metadata(path)


def refuse_other_text(model: Path, folder: ModelFolder, store: Store) -> None:
    """Raise an error if a store and a model differ in tokenizer or direction."""
    if folder.tokenizers != store.tokenizers:
        raise DataError(
            f"{store.folder} and {model} use different tokenizers. Give the data that the model "
            f"was trained on, or prepare other data with --tokenizer-from {model}."
        )
    refuse_other_direction(folder, store)


def refuse_other_direction(folder: ModelText, store: Store) -> None:
    """Raise an error if a model and a store differ in direction."""
    side = folder.mismatched_side(store.languages)
    if side is not None:
        raise ConfigError(
            f"The model translates {folder.direction}, but the {side} language of {store.folder} "
            f"is {store.languages[side]}. Choose data or a model of the same direction."
        )
