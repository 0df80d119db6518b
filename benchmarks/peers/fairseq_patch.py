"""Lets fairseq 0.12.2 be imported by Python 3.11.

It sets dataclasses as defaults of dataclasses, which Python 3.11 refuses where they cannot be
hashed; from here on, all of its own can be.
"""

from __future__ import annotations

import dataclasses
from typing import Any

_plain = dataclasses.dataclass


def _hashable(cls: Any = None, /, **options: Any) -> Any:
    if cls is None:
        return lambda cls: _hashable(cls, **options)
    if cls.__module__.split(".")[0] in ("fairseq", "hydra", "omegaconf"):
        options["unsafe_hash"] = True
    return _plain(cls, **options)


dataclasses.dataclass = _hashable
