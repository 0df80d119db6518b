"""Write JSON that every parser accepts: a number that is not finite becomes null."""

from __future__ import annotations

import json
import math
from typing import Any


def dumps(value: Any, *, indent: int | None = None) -> str:
    """A value as JSON text in UTF-8, without NaN or Infinity."""
    try:
        return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), indent=indent, ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    """The same value with None for each number that is not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
