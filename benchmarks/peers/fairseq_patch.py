"""Makes fairseq 0.12.2 importable with Python 3.11.

It uses dataclass instances as defaults of dataclass fields, which Python 3.11 rejects if they are
not hashable; this patch makes its dataclasses hashable.
"""

from __future__ import annotations

import dataclasses
from typing import Any

_original = dataclasses.dataclass


def _hashable(cls: Any = None, /, **options: Any) -> Any:
    if cls is None:
        return lambda cls: _hashable(cls, **options)
    if cls.__module__.split(".")[0] in ("fairseq", "hydra", "omegaconf"):
        options["unsafe_hash"] = True
    return _original(cls, **options)


dataclasses.dataclass = _hashable
