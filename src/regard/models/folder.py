"""A model folder describes itself and is enough to translate.

config.json            format, kind of model and its settings, special tokens, languages, limits
tokenizer.model        or source.model and target.model
model.safetensors      the weights; nothing is ever unpickled. A note in it says which settings,
                       labels and tokenizer they belong to, for shapes do not tell.

A checkpoint, `checkpoints/00001000` below such a folder, is the same model at another time. The
folder of an adapter has only the weights that learned, and says which model they belong to.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.config import Tree, as_tree
from regard.data.store import Store
from regard.errors import ConfigError, DataError, ModelError
from regard.files import whole_file, write_json
from regard.layers.adapters import adapt, is_adapted, merge
from regard.models import new_model, shape_only, unset_model
from regard.models.base import Model, ModelConfig
from regard.models.description import CONFIG as CONFIG
from regard.models.description import (
    FORMAT,
    READER,
    Adapter,
    Identity,
    model_config,
    read_description,
    refuse_other_identity,
)
from regard.models.description import Training as Training
from regard.models.description import as_today as as_today
from regard.models.protocol import Vocabulary
from regard.models.tensor_files import (
    LARGEST,
    TensorSpec,
    read_notes,
    refuse_misfits,
    refuse_nonfinite,
    specs,
    tensor_specs,
)
from regard.models.tensor_files import read_tensors as read_tensors
from regard.models.tensor_files import write_tensors as write_tensors
from regard.regular import fingerprint, read_regular
from regard.text.folder import checked_tokenizers, fingerprint_of
from regard.text.special import SPECIAL
from regard.text.tokenizer import Tokenizers

WEIGHTS, AVERAGE = "model.safetensors", "average.safetensors"


@dataclass(frozen=True)
class ModelFolder:
    """All of a model folder but the weights."""

    config: ModelConfig
    vocabulary: Vocabulary
    tokenizers: Tokenizers
    languages: dict[str, str | None]
    seen: Training
    adapter: Adapter | None = None

    @property
    def direction(self) -> str:
        """From which language to which."""
        return " to ".join(self.languages[side] or "?" for side in ("source", "target"))

    def other_side(self, languages: Mapping[str, str | None]) -> str | None:
        """The side that is known to be of another language, if there is one."""
        for side, name in self.languages.items():
            if name and languages[side] and name != languages[side]:
                return side
        return None

    def write(self, folder: Path) -> None:
        """Write everything but the weights, and `config.json` last: it makes the folder a model."""
        for name, content in self.tokenizers.files().items():
            with whole_file(folder / name) as temporary:
                temporary.write_bytes(content)
        write_json(folder / CONFIG, self._description(folder))

    def _description(self, folder: Path) -> Tree:
        adapter = {"adapter": self.adapter.described(folder)} if self.adapter else {}
        tokenizer = as_tree(self.tokenizers.config)
        return {
            "format": FORMAT,
            "model": as_tree(self.config),
            "vocabulary": as_tree(self.vocabulary),
            "tokenizer": tokenizer,
            "tokenizer_fingerprint": fingerprint_of(self.tokenizers.files(), tokenizer),
            "special_tokens": as_tree(SPECIAL),
            "languages": self.languages,
            "seen": as_tree(self.seen),
            **adapter,
        }

    def weights_note(self) -> dict[str, str]:
        """A note for weights: what they belong to, but for languages, which a user may name."""
        return self._identity().note()

    def _identity(self) -> Identity:
        tokenizer = fingerprint_of(self.tokenizers.files(), {})
        lora = self.adapter.lora if self.adapter else None
        return Identity(as_tree(self.config), self.vocabulary, self.seen, tokenizer, lora)

    def refuse_other_weights(self, path: Path) -> None:
        """Raise an error if weights say that they belong to another description."""
        refuse_other_identity(self._identity(), path)

    @staticmethod
    def read(folder: Path) -> ModelFolder:
        """Read what `write` wrote."""
        folder = _home(folder)
        description, tree = read_description(folder)
        path = folder / CONFIG
        if description.special_tokens != SPECIAL:
            raise ModelError(
                f"{path} has other special_tokens than this version of regard. Update regard."
            )
        found = ModelFolder(
            model_config(description.model, path),
            description.vocabulary,
            checked_tokenizers(folder, description.tokenizer, tree),
            as_tree(description.languages),
            description.seen,
            Adapter.of(description.adapter, folder) if description.adapter else None,
        )
        sizes = found.tokenizers.source.vocab_size, found.tokenizers.target.vocab_size
        if sizes != (found.vocabulary.source, found.vocabulary.target):
            raise ModelError(
                f"The tokenizer in {folder} belongs to another model: it has {sizes[0]} subwords, "
                f"not {found.vocabulary.source}. Copy the whole folder again."
            )
        return found

    def model(self) -> Model:
        """A model of this description, with fresh weights."""
        return new_model(self.config, self.vocabulary)


def refuse_other_task(folder: Path, task: str, does: str, preset: str = "") -> ModelFolder:
    """The description of a model folder; one of another task is refused."""
    described = ModelFolder.read(folder)
    if described.config.task != task:
        raise ConfigError(
            f"{folder} is a model for {described.config.task.replace('_', ' ')} (model kind "
            f"{described.config.kind!r}), and only a model for {task.replace('_', ' ')} {does}. "
            + (f"See `regard train --preset {preset}`." if preset else "Check the path.")
        )
    return described


def load_model(
    folder: Path, device: torch.device, description: ModelFolder | None = None
) -> tuple[ModelFolder, Model]:
    """The model in a folder, ready to run; its description, if that is read already, is taken.

    An adapter is merged with its origin: what is loaded is a model like any other.
    """
    description = description or ModelFolder.read(folder)
    path = _shown_file(folder)
    description.refuse_other_weights(path)
    if description.adapter is None:
        _refuse_other_shape(description, tensor_specs(path), path)
        model = unset_model(description.config, description.vocabulary)
        put_weights(model, shown_weights(folder), path)
    else:
        model = _adapted(description, description.adapter, folder)
    return dataclasses.replace(description, adapter=None), model.to(device).eval()


def _adapted(description: ModelFolder, adapter: Adapter, folder: Path) -> Model:
    """A model with the weights of an adapter's origin, and what the adapter adds to them."""
    refuse_circle(_home(folder))
    learned = shown_weights(folder)
    ranks = {tensor.shape[0] for name, tensor in learned.items() if name.endswith(".down")}
    if ranks != {adapter.lora.rank}:
        raise READER.wrong(
            _home(folder) / CONFIG, f"adapter.lora.rank is not that of {folder / WEIGHTS}"
        )
    origin = adapter.checked(_home(folder), weights_fingerprint)
    whole = {**whole_weights(origin), **learned}
    wanted = weights_of(shape_only(description.config, description.vocabulary))
    taken = {name: whole[name] for name in wanted if name in whole}
    _refuse_other_shape(description, specs(taken), origin / WEIGHTS)
    model = unset_model(description.config, description.vocabulary)
    put_weights(model, taken, origin / WEIGHTS)
    adapt(model, adapter.lora, {name for name in wanted if name in learned})
    put_weights(model, learned, folder / WEIGHTS)
    merge(model)
    refuse_nonfinite(weights_of(model), folder)
    return model


def refuse_circle(folder: Path) -> None:
    """Raise an error if an adapter leads back to itself, from origin to origin."""
    passed: set[Path] = set()
    adapter = ModelFolder.read(folder).adapter
    while adapter is not None and adapter.origin.is_dir():
        place = adapter.origin.resolve()
        if place in passed or place == folder.resolve():
            raise ModelError(
                f"{folder / CONFIG} cannot be used: the origin of its adapter is the adapter "
                "itself. Correct `origin`, or copy the whole folder again."
            )
        passed.add(place)
        adapter = ModelFolder.read(place).adapter


def _refuse_other_shape(
    description: ModelFolder, found: Mapping[str, TensorSpec], origin: Path
) -> None:
    """Compare weights with the model that they are for, before memory is taken for it."""
    settings = as_tree(description.config)
    layers = max((settings[name] for name in settings if name.endswith("layers")), default=0)
    if layers > len(found):  # even without numbers, many blocks take long to make
        raise ModelError(
            f"{origin} has {len(found)} weights, too few for a model of {layers} layers, so it "
            f"does not belong to its {CONFIG}. Copy the whole folder again."
        )
    model = shape_only(description.config, description.vocabulary)
    refuse_misfits(found, specs(weights_of(model)), origin)


def whole_weights(folder: Path) -> dict[str, Tensor]:
    """All weights of the model in a folder; those of an adapter are merged with its origin's."""
    description = ModelFolder.read(folder)
    if description.adapter is None:
        path = _shown_file(folder)
        description.refuse_other_weights(path)
        _refuse_other_shape(description, tensor_specs(path), path)
        return shown_weights(folder)
    return weights_of(load_model(folder, torch.device("cpu"), description)[1])


def shown_weights(folder: Path) -> dict[str, Tensor]:
    """What a folder has to show: a checkpoint's moving average if it has one, else its weights."""
    return read_tensors(_shown_file(folder))[0]


def weights_fingerprint(folder: Path) -> str:
    """A fingerprint of that."""
    path = _shown_file(folder)
    tensor_specs(path)  # says what is wrong with a file that is not there, or damaged
    return fingerprint([read_regular(path)])


def _shown_file(folder: Path) -> Path:
    average = folder / AVERAGE
    return average if average.is_file() else folder / WEIGHTS


def _home(folder: Path) -> Path:
    """The folder that describes a model; of a checkpoint, its run's."""
    run = folder.parent.parent
    below = folder.parent.name == "checkpoints" and (run / CONFIG).is_file()
    return run if below else folder


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """The parameters and running statistics by name, shared ones once.

    Of a model with adapters, only what learns: the rest is its origin's. What follows from the
    settings, and is no statistic, is not persistent and left out.
    """
    adapted = is_adapted(model)
    parameters = ((n, w) for n, w in model.named_parameters() if w.requires_grad or not adapted)
    kept = model.state_dict().keys()
    buffers = ((n, b) for n, b in model.named_buffers() if n in kept)
    return {name: tensor.detach() for name, tensor in itertools.chain(parameters, buffers)}


@torch.no_grad()
def put_weights(model: nn.Module, tensors: Mapping[str, Tensor], origin: Path) -> None:
    """Copy weights into a model; names, shapes and types must be the model's own, all of them."""
    own = weights_of(model)
    refuse_misfits(specs(tensors), specs(own), origin)
    for name, parameter in own.items():
        parameter.copy_(tensors[name])
    refuse_nonfinite(
        own, origin, LARGEST
    )  # once copied: float32 has no room for some numbers of float64


def published_notes(folder: Path) -> dict[str, str]:
    """What was noted with a folder's weights, without reading them; empty if there are none."""
    path = folder / WEIGHTS
    if not path.is_file():
        return {}
    return read_notes(path)


def refuse_other_text(model: Path, folder: ModelFolder, store: Store) -> None:
    """Say that a store is not cut as a model reads text, or goes in another direction."""
    if folder.tokenizers != store.tokenizers:
        raise DataError(
            f"{store.folder} is cut in another way than {model} reads text. Give the data that it "
            f"was trained on, or prepare other data with --tokenizer-from {model}."
        )
    refuse_other_direction(folder, store)


def refuse_other_direction(folder: ModelFolder, store: Store) -> None:
    """Say that a model translates from or into another language than a store has."""
    side = folder.other_side(store.languages)
    if side is not None:
        raise ConfigError(
            f"The model translates {folder.direction}, and the {side} of {store.folder} is "
            f"{store.languages[side]}. Choose data, or a model, of the same direction."
        )
