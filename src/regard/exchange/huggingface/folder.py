"""A HuggingFace folder: config.json, model.safetensors and tokenizer files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.config import Settings, Tree
from regard.errors import ModelError
from regard.models.folder import read_tensors
from regard.regular_files import path_inside, read_regular_file
from regard.schema import MEBIBYTE, JsonReader

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
GENERATION, TOKENIZER = "generation_config.json", "tokenizer_config.json"
READER = JsonReader(
    ModelError, "Copy the whole folder again.", limit=256 * MEBIBYTE, wide_integers=True
)
_PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json")


@dataclass(frozen=True)
class _WeightMap(Settings):
    """The fields of `model.safetensors.index.json` that are read."""

    weight_map: dict[str, str]


@dataclass(frozen=True)
class HuggingFaceFolder:
    """A HuggingFace folder, whose files are read on demand."""

    path: Path

    @cached_property
    def config(self) -> dict[str, Any]:
        """The content of config.json."""
        if not (self.path / CONFIG).is_file():
            raise ModelError(
                f"{self.path} is not a HuggingFace folder: it has no {CONFIG}. Give a folder "
                "written by `save_pretrained`, or a snapshot from the HuggingFace Hub."
            )
        return self.json(CONFIG)

    def settings(self, defaults: Mapping[str, Any], optional: tuple[str, ...] = ()) -> Tree:
        """Return config.json completed by defaults, with the types of values checked.

        optional: numbers that may be null or 0. Token ids may be null or lists.
        """
        for name in (name for name in defaults if name.endswith("_token_id")):
            ids = self.config.get(name, [])
            listed = ids if type(ids) is list else [ids]
            if ids is not None and any(type(number) is not int for number in listed):
                problem = f"{name} is {json.dumps(ids)[:100]}, but must be an id or a list of ids"
                raise READER.content_error(self.path / CONFIG, problem)
        absent = [name for name in optional if self.config.get(name, 1) is None]
        expected = {
            name: default
            for name, default in defaults.items()
            if not name.endswith("_token_id") and name not in absent
        }
        READER.check_types(self.config, expected, self.path / CONFIG)
        for name in expected.keys() & self.config.keys() - {*optional}:
            value, default = self.config[name], expected[name]
            if type(value) is int and value < 1 and type(default) is int and default > 0:
                raise READER.content_error(
                    self.path / CONFIG, f"{name} is {value}, but must be positive"
                )
        return {**defaults, **self.config}

    def json(self, name: str) -> dict[str, Any]:
        """Return the JSON object in a file; empty if the file does not exist."""
        if not (self.path / name).is_file():
            return {}
        return READER.read_object(self.path / name)

    def bad_words_ids(self) -> list[list[int]]:
        """Return the id sequences that must not be generated."""
        name, table = "bad_words_ids", self.json(GENERATION)
        rows = (table or self.config).get(name) or []
        are_lists = isinstance(rows, list) and all(isinstance(row, list) for row in rows)
        if not are_lists or any(type(number) is not int for row in rows for number in row):
            path = self.path / (GENERATION if table else CONFIG)
            raise READER.content_error(path, f"{name} must be a list of lists of ids")
        return rows

    def files(self, *names: str) -> dict[str, bytes]:
        """Return the contents of those of the files that exist."""
        paths = [self.path / name for name in names]
        return {
            path.name: read_regular_file(path, READER.limit) for path in paths if path.is_file()
        }

    def tensors(self) -> dict[str, Tensor]:
        """Return the weights, from one file or several shards."""
        if (self.path / INDEX).is_file() and not (self.path / WEIGHTS).is_file():
            names = self._shards()
        else:
            self._refuse_pickles()
            names = [WEIGHTS]
        tensors: dict[str, Tensor] = {}
        for name in names:
            for stored, tensor in read_tensors(self.path / name)[0].items():
                if _current_name(stored) in tensors:
                    raise ModelError(
                        f"{self.path / name} has a duplicate of {_current_name(stored)}. Copy the "
                        "whole folder again."
                    )
                tensors[_current_name(stored)] = tensor
        return tensors

    def _shards(self) -> list[str]:
        """Return the names of the weight files, which must be inside the folder."""
        path = self.path / INDEX
        shards = READER.build(_WeightMap, {"weight_map": self.json(INDEX).get("weight_map")}, path)
        names = sorted({*shards.weight_map.values()})
        for name in names:
            path_inside(self.path, name, path)
        return names

    def _refuse_pickles(self) -> None:
        pickled = [name for name in _PICKLED if (self.path / name).is_file()]
        if not pickled or (self.path / WEIGHTS).is_file():
            return
        kind = (self.config.get("architectures") or ["AutoModel"])[0]
        raise ModelError(
            f"The weights of {self.path} are pickled ({pickled[0]}). A pickle can run arbitrary "
            f"code, so regard does not load it. If you trust it, convert it to {WEIGHTS} with "
            f'transformers:\n  python -c "from transformers import {kind}; '
            f"{kind}.from_pretrained('{self.path}').save_pretrained('{self.path}')\""
        )


def _current_name(name: str) -> str:
    """Return the current name of a weight; norms converted from TensorFlow have other names."""
    for old, new in (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")):
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def to_id_list(value: Any) -> list[Any]:
    """Return the ids of a setting that may be an id, a list or None."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def to_single_id(value: Any) -> Any:
    """Return an id, also if it is the only element of a list."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value
