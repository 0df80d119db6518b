"""The model and adapter of `config.json`, and their copy in the metadata of the weights.

Shapes do not identify the settings of weights: another number of heads, order of labels or
tokenizer of the same size has the same shapes and gives other results. So the weights file stores
the settings in its metadata, and they are compared when the weights are loaded.

An adapter folder only has the trained weights; all others are those of its base model. The base
model is looked up by its path relative to the folder, so that both can be moved together, and then
by its path at training time; a fingerprint shows whether its weights have changed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from regard.config import Formerly, Settings, Tree
from regard.data.model_text import CONFIG, READER, DataStatistics
from regard.errors import ModelError
from regard.layers.adapters import LoraConfig
from regard.models import ARCHITECTURES
from regard.models.base import ModelConfig
from regard.models.protocol import Vocabulary
from regard.models.tensor_files import read_metadata
from regard.settings_tree import to_tree, tree_differences

_IDENTITY = "belongs_to"


@dataclass(frozen=True)
class AdapterDescription(Settings):
    """The adapter section of `config.json`."""

    lora: LoraConfig
    origin: str  # path of the base model, relative to the folder
    origin_once: str  # path of the base model at training time
    fingerprint: str

    def problems(self) -> Iterator[str]:
        """Invalid paths or ranks."""
        for name in ("origin", "origin_once"):
            if "\0" in getattr(self, name):
                yield f"{name} is not a path"
        if self.lora.rank < 1:
            yield f"lora.rank is {self.lora.rank}, but must be at least 1"


@dataclass(frozen=True)
class Adapter:
    """The settings and the base model of an adapter."""

    lora: LoraConfig
    base_model: Path
    fingerprint: str  # of the weights of the base model

    def to_tree(self, folder: Path) -> Tree:
        """The adapter section of `config.json`."""
        return {
            "lora": to_tree(self.lora),
            "origin": os.path.relpath(self.base_model.resolve(), folder.resolve()),
            "origin_once": str(self.base_model),
            "fingerprint": self.fingerprint,
        }

    @staticmethod
    def of(section: Tree, folder: Path) -> Adapter:
        """From the adapter section of a folder's `config.json`."""
        description = READER.build(
            AdapterDescription, section, folder / CONFIG, "adapter.", notify=False
        )
        relative = Path(os.path.normpath(folder.resolve() / description.origin))
        original = Path(description.origin_once)
        moved = os.path.isdir(original) and not os.path.isdir(relative)
        return Adapter(description.lora, original if moved else relative, description.fingerprint)

    def find_base_model(self, folder: Path, fingerprint: Callable[[Path], str]) -> Path:
        """The path of the base model; it must exist and be unchanged."""
        if not os.path.isdir(self.base_model):  # or the path is too long
            raise ModelError(
                f"{folder} is an adapter of {self.base_model}, which does not exist. Restore that "
                f"model folder, or correct `origin` in {folder / 'config.json'} if it has moved."
            )
        if fingerprint(self.base_model) != self.fingerprint:
            raise ModelError(
                f"{folder} is an adapter of {self.base_model}, whose weights have changed. Restore "
                "them, or train the adapter again; models made by `regard merge` do not need their "
                "base model."
            )
        return self.base_model


@dataclass(frozen=True)
class Identity(Settings):
    """The settings in the metadata of weights, without languages, which users may change."""

    model: dict[str, Any]
    vocabulary: Vocabulary
    data_statistics: Annotated[DataStatistics, Formerly("seen")]
    tokenizer: str  # a fingerprint of its files
    lora: LoraConfig | None = None  # of an adapter

    def metadata(self) -> dict[str, str]:
        """The metadata of a weights file."""
        return {_IDENTITY: json.dumps(to_tree(self), sort_keys=True)}


def refuse_other_identity(identity: Identity, path: Path) -> None:
    """Raise an error if weights belong to another model.

    Weights of earlier versions have no such metadata; settings added since have their defaults.
    """
    text = read_metadata(path).get(_IDENTITY)
    if text is None:
        return
    where = f"The metadata {_IDENTITY} of {path}"
    stored = READER.build(Identity, READER.parse(text.encode(), where), where, notify=False)
    model = to_tree(model_config(stored.model, where, notify=False))
    known = {**to_tree(stored), "model": model}
    changed = tree_differences(known, to_tree(identity))
    if changed:
        raise ModelError(
            f"{path} does not belong to its {CONFIG}, or that was changed: "
            f"{'; '.join(changed)[:300]}. Undo the change, or copy the whole folder again."
        )


def model_config(model: Tree, path: Path | str, *, notify: bool = True) -> ModelConfig:
    """The settings of a model of any kind."""
    model = upgrade_settings(model)
    kind = model["kind"]
    if not isinstance(kind, str) or kind not in ARCHITECTURES:
        name, known = str(kind)[:40], ", ".join(ARCHITECTURES)
        raise ModelError(
            f"{path}: model.kind is {name}, which is not registered. Known: {known}. If it is "
            "defined by a plugin, load that: regard --plugin FILE ... (in Python: import it); if "
            "not, copy the whole folder again, or update regard."
        )
    config_class, _ = ARCHITECTURES[kind]
    return READER.build(config_class, model, path, "model.", notify=notify)


def upgrade_settings(model: Tree) -> Tree:
    """The model settings of folders of earlier versions in the current form.

    `kind` was called `architecture`; a non-autoregressive decoder had no self-attention mask.
    """
    kind = model.get("architecture", model.get("kind"))
    rest = {n: v for n, v in model.items() if n not in ("architecture", "kind")}
    if kind == "nonautoregressive":
        rest.setdefault("self_attention_mask", "none")
    return {"kind": kind, **rest}
