"""What `config.json` of a model folder says, and what a file of weights says of it.

Shapes alone do not tell which settings weights belong to: another number of heads, another order of
labels or another tokenizer of the same size fits them, and gives other results. So weights come
with a note of what they belong to, which is compared when they are loaded.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from regard.config import Doc, Ge, Le, Settings, Tree, as_tree, differences
from regard.data.content import Languages
from regard.errors import ModelError
from regard.layers.adapters import LoraConfig
from regard.models import ARCHITECTURES
from regard.models.adapter import AdapterDescription
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
