"""The tokenizers of a folder that describes itself: a prepared folder or a model folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.config import build
from regard.errors import ConfigError, DataError
from regard.recognize import foreign_model
from regard.text.config import TokenizerConfig
from regard.text.tokenizer import Tokenizers

_DESCRIPTIONS = ("store.json", "config.json")  # each has a table "tokenizer"


def described_tokenizers(folder: Path, description: Mapping[str, Any]) -> Tokenizers:
    """The tokenizers of a folder whose description is already read."""
    return Tokenizers.load(folder, build(TokenizerConfig, description["tokenizer"]))


def tokenizers_in(folder: Path) -> Tokenizers:
    """The tokenizers of any folder that `regard prepare` or `regard train` wrote."""
    path = next((folder / name for name in _DESCRIPTIONS if (folder / name).is_file()), None)
    if path is None:
        raise DataError(
            f"There is no tokenizer in {folder}: it has neither {' nor '.join(_DESCRIPTIONS)}. "
            "Give the folder that `regard prepare --out` or `regard train --out` wrote."
        )
    description: Any = None
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
        return described_tokenizers(folder, description)
    except (ValueError, KeyError, TypeError, ConfigError) as error:
        other = foreign_model(folder, description) if path.name == "config.json" else None
        raise DataError(
            other
            or f"{path} is damaged or from another version of regard ({error}). "
            "Copy the whole folder again, or update regard."
        ) from None
