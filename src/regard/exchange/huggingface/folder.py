"""A folder of HuggingFace's: config.json, model.safetensors and the files of a tokenizer."""

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
from regard.regular import inside, read_regular
from regard.schema import MEBIBYTE, JsonReader

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
GENERATION, TOKENIZER = "generation_config.json", "tokenizer_config.json"
READER = JsonReader(
    ModelError, "Copy the whole folder again.", limit=256 * MEBIBYTE, wide_integers=True
)
_PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json")


@dataclass(frozen=True)
class _WeightMap(Settings):
    """What we read of `model.safetensors.index.json`."""

    weight_map: dict[str, str]


@dataclass(frozen=True)
class ForeignFolder:
    """What lies in a folder, read when it is asked for."""

    path: Path

    @cached_property
    def config(self) -> dict[str, Any]:
        """What the model is."""
        if not (self.path / CONFIG).is_file():
            raise ModelError(
                f"{self.path} is no folder of HuggingFace's: it has no {CONFIG}. Give the folder "
                "that `save_pretrained` wrote, or a snapshot of their hub."
            )
        return self.json(CONFIG)

    def settings(self, defaults: Mapping[str, Any], optional: tuple[str, ...] = ()) -> Tree:
        """What config.json says, with their defaults; each setting that has one has its type.

        optional: the numbers that may be null or 0. Ids of tokens may be null or lists.
        """
        for name in (name for name in defaults if name.endswith("_token_id")):
            ids = self.config.get(name, [])
            listed = ids if type(ids) is list else [ids]
            if ids is not None and any(type(number) is not int for number in listed):
                problem = f"{name} is {json.dumps(ids)[:100]}, and must be an id or a list of ids"
                raise READER.wrong(self.path / CONFIG, problem)
        absent = [name for name in optional if self.config.get(name, 1) is None]
        expected = {
            name: default
            for name, default in defaults.items()
            if not name.endswith("_token_id") and name not in absent
        }
        READER.typed(self.config, expected, self.path / CONFIG)
        for name in expected.keys() & self.config.keys() - {*optional}:
            value, default = self.config[name], expected[name]
            if type(value) is int and value < 1 and type(default) is int and default > 0:
                raise READER.wrong(self.path / CONFIG, f"{name} is {value}, and must be positive")
        return {**defaults, **self.config}

    def json(self, name: str) -> dict[str, Any]:
        """A file with a JSON object; an empty one if there is no such file."""
        if not (self.path / name).is_file():
            return {}
        return READER.table(self.path / name)

    def forbidden_words(self) -> list[list[int]]:
        """The sequences of ids that their searches never write."""
        name, table = "bad_words_ids", self.json(GENERATION)
        words = (table or self.config).get(name) or []
        lists = isinstance(words, list) and all(isinstance(word, list) for word in words)
        if not lists or any(type(number) is not int for word in words for number in word):
            where = self.path / (GENERATION if table else CONFIG)
            raise READER.wrong(where, f"{name} must be a list of lists of ids")
        return words

    def files(self, *names: str) -> dict[str, bytes]:
        """The contents of those of the files that there are."""
        paths = [self.path / name for name in names]
        return {path.name: read_regular(path, READER.limit) for path in paths if path.is_file()}

    def tensors(self) -> dict[str, Tensor]:
        """The weights, of one file or of several."""
        if (self.path / INDEX).is_file() and not (self.path / WEIGHTS).is_file():
            names = self._shards()
        else:
            self._refuse_pickles()
            names = [WEIGHTS]
        found: dict[str, Tensor] = {}
        for name in names:
            for stored, tensor in read_tensors(self.path / name)[0].items():
                if _today(stored) in found:
                    raise ModelError(
                        f"{self.path / name} has {_today(stored)} a second time. Copy the whole "
                        "folder again."
                    )
                found[_today(stored)] = tensor
        return found

    def _shards(self) -> list[str]:
        """The names of the files of weights, which all lie in the folder."""
        path = self.path / INDEX
        shards = READER.build(_WeightMap, {"weight_map": self.json(INDEX).get("weight_map")}, path)
        names = sorted({*shards.weight_map.values()})
        for name in names:
            inside(self.path, name, path)
        return names

    def _refuse_pickles(self) -> None:
        pickled = [name for name in _PICKLED if (self.path / name).is_file()]
        if not pickled or (self.path / WEIGHTS).is_file():
            return
        kind = (self.config.get("architectures") or ["AutoModel"])[0]
        raise ModelError(
            f"The weights of {self.path} are pickled ({pickled[0]}), and a pickle can run any "
            f"program, so regard opens none. If you trust it, write {WEIGHTS} beside it with "
            f"HuggingFace's own package:\n  python -c \"from transformers import {kind}; "
            f"{kind}.from_pretrained('{self.path}').save_pretrained('{self.path}')\""
        )


def _today(name: str) -> str:
    """The name of a weight; norms that came from TensorFlow have others."""
    for old, new in (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")):
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def several_ids(value: Any) -> list[Any]:
    """Ids of a setting that may be one, a list or nothing."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def one_id(value: Any) -> Any:
    """An id, also where it is the only one of a list."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value
