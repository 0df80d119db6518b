"""Serialize to standard JSON: NaN and infinity become null."""

from __future__ import annotations

import json
import math
from typing import Any


def dumps(value: Any, *, indent: int | None = None) -> str:
    """A value as JSON text, without ASCII escapes, NaN or Infinity."""
    try:
        return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(
            _replace_nonfinite(value), indent=indent, ensure_ascii=False, allow_nan=False
        )


def _replace_nonfinite(value: Any) -> Any:
    """The value with None in place of each number that is not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _replace_nonfinite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_nonfinite(item) for item in value]
    return value
