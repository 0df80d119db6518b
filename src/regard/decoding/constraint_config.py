"""Settings of what translations must contain; does not import PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypedDict

from regard.config import Doc, Settings
from regard.data.glossary import GlossarySource


@dataclass(frozen=True)
class ConstraintConfig(Settings):
    """Settings of what translations must contain."""

    glossary: Annotated[
        Path | None,
        Doc("file with a source term, a tab and its translation per line, which is used"),
    ] = None
    force: Annotated[
        tuple[str, ...],
        Doc("word that every translation contains, or alternatives (Haus|Hauses); repeatable"),
    ] = ()


class ConstraintKeywords(TypedDict, total=False):
    """The fields of `ConstraintConfig` as keyword arguments; a test checks that they are equal."""

    glossary: GlossarySource | None  # in Python, also terms
    force: tuple[str, ...]
