"""A model folder describes itself and is enough to translate.

config.json            format, kind of model and its settings, special tokens, languages, limits
tokenizer.model        or source.model and target.model
model.safetensors      the weights; nothing is ever unpickled

A checkpoint, `checkpoints/00001000` below such a folder, is the same model at another time. The
folder of an adapter has only the weights that learned, and says which model they belong to.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from regard.config import Tree, as_tree, build
from regard.data.store import Store, fingerprint
from regard.errors import ConfigError, DataError, ModelError
from regard.files import whole_file, write_json
from regard.layers.adapters import adapt, is_adapted, merge
from regard.models import ARCHITECTURES, new_model
from regard.models.adapter import Adapter
from regard.models.base import Model, ModelConfig
from regard.models.protocol import Vocabulary
from regard.recognize import exported_model, foreign_model
from regard.text.folder import described_tokenizers
from regard.text.special import SPECIAL, SpecialTokens
from regard.text.tokenizer import Tokenizers

FORMAT = 1
CONFIG, WEIGHTS, AVERAGE = "config.json", "model.safetensors", "average.safetensors"


@dataclass(frozen=True)
class Training:
    """What a model has seen, and so what it can be asked."""

    longest_source: int  # subwords of the longest training sentence
    several_sentences: float  # share of training lines with more than one sentence
    column: str | None = None  # of labels of words, if they came from CoNLL-U
    texts: int = 1  # that have one label together

    @staticmethod
    def of(config: ModelConfig, store: Store) -> Training:
        """What a model will have seen that is trained on a store."""
        train = store.description["parts"]["train"]
        if config.task is not None:  # running text is read piece by piece
            texts = train["most_texts"] if config.content == "labelled" else 1
            return Training(config.task.context, 1.0, train.get("column"), texts)
        return Training(train["longest_source"], train["several_sentences"])


@dataclass(frozen=True)
class ModelFolder:
    """All of a model folder but the weights."""

    config: ModelConfig
    vocabulary: Vocabulary
    tokenizers: Tokenizers
    languages: dict[str, str | None]
    seen: Training
    adapter: Adapter | None = None

    @staticmethod
    def for_store(config: ModelConfig, store: Store) -> ModelFolder:
        """The description of a model that is going to be trained on a prepared store."""
        store.refuse_other_content(config.content, config.kind)
        return ModelFolder(
            config,
            Vocabulary(**store.description["vocabulary"]),
            store.tokenizers,
            store.languages,
            Training.of(config, store),
        )

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
        return {
            "format": FORMAT,
            "model": as_tree(self.config),
            "vocabulary": vars(self.vocabulary),
            "tokenizer": as_tree(self.tokenizers.config),
            "special_tokens": as_tree(SPECIAL),
            "languages": self.languages,
            "seen": vars(self.seen),
            **adapter,
        }

    @staticmethod
    def read(folder: Path) -> ModelFolder:
        """Read what `write` wrote."""
        folder = _home(folder)
        description = _read_description(folder)
        try:
            if build(SpecialTokens, description["special_tokens"]) != SPECIAL:
                raise ModelError(
                    f"{folder} marks start and end in another way than this regard. Update it."
                )
            model = as_today(description["model"])
            config_class, _ = ARCHITECTURES[model["kind"]]
            found = ModelFolder(
                build(config_class, model, "model."),
                Vocabulary(**description["vocabulary"]),
                described_tokenizers(folder, description),
                description["languages"],
                Training(**description["seen"]),
                Adapter.of(adapter, folder) if (adapter := description.get("adapter")) else None,
            )
        except (KeyError, TypeError, ConfigError) as error:
            raise ModelError(
                f"{folder / CONFIG} is damaged or from another version of regard ({error}). "
                "Copy the whole folder again, or update regard."
            ) from None
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


def load_model(
    folder: Path, device: torch.device, description: ModelFolder | None = None
) -> tuple[ModelFolder, Model]:
    """The model in a folder, ready to run; its description, if that is read already, is taken.

    An adapter is merged with its origin: what is loaded is a model like any other.
    """
    description = description or ModelFolder.read(folder)
    model = description.model()
    if description.adapter is None:
        put_weights(model, shown_weights(folder), folder / WEIGHTS)
    else:
        _put_adapted(model, description.adapter, folder)
    return dataclasses.replace(description, adapter=None), model.to(device).eval()


def _put_adapted(model: Model, adapter: Adapter, folder: Path) -> None:
    """Give a model the weights of an adapter's origin, and what the adapter adds to them."""
    learned = shown_weights(folder)
    origin = adapter.checked(_home(folder), weights_fingerprint)
    whole = {**whole_weights(origin), **learned}
    fresh = {name for name in weights_of(model) if name in learned}
    put_weights(model, {n: whole[n] for n in weights_of(model) if n in whole}, origin / WEIGHTS)
    adapt(model, adapter.lora, fresh)
    put_weights(model, learned, folder / WEIGHTS)
    merge(model)


def whole_weights(folder: Path) -> dict[str, Tensor]:
    """All weights of the model in a folder; those of an adapter are merged with its origin's."""
    if ModelFolder.read(folder).adapter is None:
        return shown_weights(folder)
    return weights_of(load_model(folder, torch.device("cpu"))[1])


def shown_weights(folder: Path) -> dict[str, Tensor]:
    """What a folder has to show: a checkpoint's moving average if it has one, else its weights."""
    return read_tensors(_shown_file(folder))[0]


def weights_fingerprint(folder: Path) -> str:
    """A fingerprint of that."""
    path = _shown_file(folder)
    with _opened(path):
        return fingerprint([path.read_bytes()])


def _shown_file(folder: Path) -> Path:
    average = folder / AVERAGE
    return average if average.is_file() else folder / WEIGHTS


def as_today(model: Tree) -> Tree:
    """A model's settings as they are called now; the kind was once called architecture."""
    kind = model.get("architecture", model.get("kind"))
    return {"kind": kind, **{n: v for n, v in model.items() if n not in ("architecture", "kind")}}


def _home(folder: Path) -> Path:
    """The folder that describes a model; of a checkpoint, its run's."""
    run = folder.parent.parent
    below = folder.parent.name == "checkpoints" and (run / CONFIG).is_file()
    return run if below else folder


def _read_description(folder: Path) -> Tree:
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        other = foreign_model(folder)
        raise ModelError(other or f"There is no model folder {folder}: it {what}. Check the path.")
    path = folder / CONFIG
    if not path.is_file():
        raise ModelError(
            foreign_model(folder)
            or f"{folder} is not a model folder: it has no {CONFIG}. "
            "Give the folder that `regard train --out` wrote."
        )
    try:
        description: Any = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise ModelError(f"{path} is damaged. Copy the whole folder again.") from None
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        other = foreign_model(folder, description)
        raise ModelError(
            other or f"{path} is not of format {FORMAT}, which this regard reads. Update regard."
        )
    return description


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
    """Copy weights into a model; names and shapes must be the model's own, all of them."""
    own = weights_of(model)
    missing, extra = sorted(own.keys() - tensors.keys()), sorted(tensors.keys() - own.keys())
    bent = sorted(n for n in own.keys() & tensors.keys() if own[n].shape != tensors[n].shape)
    for names, what in ((missing, "lacks"), (extra, "has unknown"), (bent, "has misshapen")):
        if names:
            raise ModelError(
                f"{origin} {what} weights ({', '.join(names[:3])}; {len(names)} in all), so it "
                f"does not belong to its {CONFIG}. Copy the whole folder again."
            )
    for name, parameter in own.items():
        parameter.copy_(tensors[name])


def published_notes(folder: Path) -> dict[str, str]:
    """What was noted with a folder's weights, without reading them; empty if there are none."""
    path = folder / WEIGHTS
    if not path.is_file():
        return {}
    with _opened(path) as file:
        return _notes(file)


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


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a safetensors file, and its notes."""
    with _opened(path) as file:
        names = list(file.keys())
        return {name: file.get_tensor(name) for name in names}, _notes(file)


def _notes(file: Any) -> dict[str, str]:
    notes: dict[str, str] = json.loads((file.metadata() or {}).get("notes", "{}"))
    return notes


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """A safetensors file, or a sentence about why it cannot be read."""
    if not path.exists():
        raise ModelError(
            exported_model(path.parent)
            or f"{path.parent} is incomplete: {path.name} is missing. Copy the whole folder again, "
            "or train until the first checkpoint."
        )
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except OSError:
        raise ModelError(f"{path} cannot be read. Check what it is, and its permissions.") from None
    except SafetensorError as error:
        raise ModelError(f"{path} is damaged or truncated ({error}). Copy it again.") from None


def write_tensors(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, str]) -> None:
    """Write a safetensors file, whole or not at all."""
    with whole_file(path) as temporary:
        plain = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
        # In one entry: the order of several is another each time, and equal weights should be
        # equal files.
        save_file(plain, temporary, metadata={"notes": json.dumps(notes, sort_keys=True)})
