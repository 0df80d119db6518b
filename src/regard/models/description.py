"""What `config.json` of a model folder says, and what a file of weights says of it.

Shapes alone do not tell which settings weights belong to: another number of heads, another order of
labels or another tokenizer of the same size fits them, and gives other results. So weights come
with a note of what they belong to, which is compared when they are loaded.

The weights of an adapter are those that learned; all others stay with its origin, so its folder is
small. The origin is looked for by its path from the folder, so that both can move together, and
then where it was when the adapter was trained; its fingerprint says whether it is still the same.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from regard.config import Doc, Ge, Le, Settings, Tree, as_tree, differences
from regard.data.content import Languages
from regard.errors import ModelError
from regard.layers.adapters import LoraConfig
from regard.models import ARCHITECTURES
from regard.models.base import ModelConfig
from regard.models.protocol import Vocabulary
from regard.models.tensor_files import read_notes
from regard.recognize import foreign_model
from regard.schema import JsonReader
from regard.text.config import TokenizerConfig
from regard.text.special import SpecialTokens

FORMAT = 1
CONFIG = "config.json"
READER = JsonReader(ModelError, "Copy the whole folder again, or update regard.")
_NOTE = "belongs_to"


@dataclass(frozen=True)
class Training(Settings):
    """Statistics of the data that a model was trained on."""

    longest_source: Annotated[
        int, Doc("subwords of the longest training sentence"), Ge(0), Le(2**31 - 1)
    ]
    several_sentences: Annotated[
        float, Doc("share of training lines with more than one sentence"), Ge(0), Le(1)
    ]
    column: Annotated[str | None, Doc("CoNLL-U column of the labels of words")] = None
    texts: Annotated[int, Doc("texts that have one label together"), Ge(0), Le(2)] = 1


@dataclass(frozen=True)
class AdapterDescription(Settings):
    """What `config.json` says of an adapter."""

    lora: LoraConfig
    origin: str  # from the folder
    origin_once: str  # when it was trained
    fingerprint: str

    def problems(self) -> Iterator[str]:
        """Paths that no system has."""
        for name in ("origin", "origin_once"):
            if "\0" in getattr(self, name):
                yield f"{name} is no path"
        if self.lora.rank < 1:
            yield f"lora.rank is {self.lora.rank}, and must be at least 1"


@dataclass(frozen=True)
class Adapter:
    """An adapter's origin, and its settings."""

    lora: LoraConfig
    origin: Path
    fingerprint: str  # of the origin's weights

    def described(self, folder: Path) -> Tree:
        """For the description of a folder."""
        return {
            "lora": as_tree(self.lora),
            "origin": os.path.relpath(self.origin.resolve(), folder.resolve()),
            "origin_once": str(self.origin),
            "fingerprint": self.fingerprint,
        }

    @staticmethod
    def of(description: AdapterDescription, folder: Path) -> Adapter:
        """As a folder describes it."""
        beside = Path(os.path.normpath(folder.resolve() / description.origin))
        once = Path(description.origin_once)
        origin = once if os.path.isdir(once) and not os.path.isdir(beside) else beside
        return Adapter(description.lora, origin, description.fingerprint)

    def checked(self, folder: Path, fingerprint: Callable[[Path], str]) -> Path:
        """The origin of an adapter in a folder; it must be there, and unchanged."""
        if not os.path.isdir(self.origin):  # also of a path that is too long
            raise ModelError(
                f"{folder} is an adapter of {self.origin}, which is not there. Put that model "
                f"folder back; or correct `origin` in {folder / 'config.json'}, if it has moved."
            )
        if fingerprint(self.origin) != self.fingerprint:
            raise ModelError(
                f"{folder} is an adapter of {self.origin}, whose weights are others now. Restore "
                "them, or train the adapter anew; `regard merge` makes models that need no origin."
            )
        return self.origin


@dataclass(frozen=True)
class Description(Settings):
    """The fields of `config.json`."""

    format: int
    model: dict[str, Any]  # depends on its `kind`
    vocabulary: Vocabulary
    tokenizer: TokenizerConfig
    special_tokens: SpecialTokens
    languages: Languages
    seen: Training
    tokenizer_fingerprint: str | None = None  # folders of earlier versions have none
    adapter: AdapterDescription | None = None


@dataclass(frozen=True)
class Identity(Settings):
    """The note that weights have; languages are left out, for a user may name them later."""

    model: dict[str, Any]
    vocabulary: Vocabulary
    seen: Training
    tokenizer: str  # a fingerprint of its files
    lora: LoraConfig | None = None  # of an adapter

    def note(self) -> dict[str, str]:
        """As a note of a file of weights."""
        return {_NOTE: json.dumps(as_tree(self), sort_keys=True)}


def refuse_other_identity(identity: Identity, path: Path) -> None:
    """Raise an error if weights say that they belong to something else.

    Weights of earlier versions do not say. A setting that was added since then has its default.
    """
    note = read_notes(path).get(_NOTE)
    if note is None:
        return
    where = f"The note {_NOTE} of {path}"
    stored = READER.build(Identity, READER.parse(note.encode(), where), where)
    known = {**as_tree(stored), "model": as_tree(model_config(stored.model, where))}
    changed = differences(known, as_tree(identity))
    if changed:
        raise ModelError(
            f"{path} does not belong to its {CONFIG}, or that was changed since: "
            f"{'; '.join(changed)[:300]}. Undo the change, or copy the whole folder again."
        )


def model_config(model: Tree, path: Path | str) -> ModelConfig:
    """The settings of a model of any kind."""
    model = as_today(model)
    kind = model["kind"]
    if not isinstance(kind, str) or kind not in ARCHITECTURES:
        shown, known = str(kind)[:40], ", ".join(ARCHITECTURES)
        raise ModelError(
            f"{path}: model.kind is {shown}, which is not registered. Known: {known}. If it is of "
            "a plugin, load that: regard --plugin FILE ... (in Python: import it); if not, copy "
            "the whole folder again, or update regard."
        )
    config_class, _ = ARCHITECTURES[kind]
    return READER.build(config_class, model, path, "model.")


def as_today(model: Tree) -> Tree:
    """A model's settings as they are called now, with what older folders leave unsaid.

    The kind was once called architecture. A non-autoregressive decoder once had no mask.
    """
    kind = model.get("architecture", model.get("kind"))
    rest = {n: v for n, v in model.items() if n not in ("architecture", "kind")}
    if kind == "nonautoregressive":
        rest.setdefault("self_attention_mask", "none")
    return {"kind": kind, **rest}


def read_description(folder: Path) -> tuple[Description, Tree]:
    """The description of a model folder, checked, and as it stands in the file."""
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
    tree = READER.table(path)
    if "format" not in tree and (other := foreign_model(folder, tree)):
        raise ModelError(other)
    READER.refuse_other_format(tree, path, FORMAT)
    return READER.build(Description, tree, path), tree
