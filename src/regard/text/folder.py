"""Load the tokenizers of a prepared folder or a model folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.errors import DataError, ModelError
from regard.foreign_models import describe_foreign_model
from regard.regular_files import fingerprint
from regard.schema import JsonReader
from regard.text.config import TokenizerConfig
from regard.text.tokenizer import Tokenizers

_DESCRIPTIONS = ("store.json", "config.json")  # both have a table "tokenizer"
_READER = JsonReader(DataError, "Copy the whole folder again, or update regard.")


def compute_tokenizer_fingerprint(files: Mapping[str, bytes], settings: Mapping[str, Any]) -> str:
    """A digest of the files and settings of tokenizers."""
    parts = [json.dumps(settings, sort_keys=True).encode()]
    parts += [part for name in sorted(files) for part in (name.encode(), files[name])]
    return fingerprint(parts)


def load_verified_tokenizers(
    folder: Path, config: TokenizerConfig, description: Mapping[str, Any]
) -> Tokenizers:
    """The tokenizers of a folder, verified against the fingerprint in its description, if any."""
    tokenizers = Tokenizers.load(folder, config)
    known = description.get("tokenizer_fingerprint")
    if known is None:
        return tokenizers
    files = tokenizers.files()  # as loaded: without the normalization rules of exported models
    if compute_tokenizer_fingerprint(files, description["tokenizer"]) != known:
        raise ModelError(
            f"The tokenizer in {folder} ({', '.join(files)}) belongs to another model or corpus: "
            "it, or its settings, are not what the folder was made with. Copy the whole folder "
            "again."
        )
    return tokenizers


def load_folder_tokenizers(folder: Path, *, reverse_target: bool = False) -> Tokenizers:
    """The tokenizers of a folder written by `regard prepare` or `regard train`.

    With `reverse_target`, those for a right-to-left model.
    """
    path = next((folder / name for name in _DESCRIPTIONS if (folder / name).is_file()), None)
    if path is None:
        raise DataError(
            f"There is no tokenizer in {folder}: it has neither {' nor '.join(_DESCRIPTIONS)}. "
            "Give the folder that `regard prepare --out` or `regard train --out` wrote."
        )
    description = _READER.read_object(path)
    other = describe_foreign_model(folder, description) if path.name == "config.json" else None
    if other is not None and "tokenizer" not in description:
        raise DataError(other)
    config = _READER.build(TokenizerConfig, description.get("tokenizer"), path, "tokenizer.")
    tokenizers = load_verified_tokenizers(folder, config, description)
    return tokenizers.with_reversed_target() if reverse_target else tokenizers
