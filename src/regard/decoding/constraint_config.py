"""Settings of what translations must contain; does not import PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypedDict

from regard.config import Doc, Settings
from regard.data.glossary import GlossarySource

GlossaryMethod = Literal["constrained", "annotated", "both"]


@dataclass(frozen=True)
class ConstraintConfig(Settings):
    """Settings of what translations must contain."""

    glossary: Annotated[
        Path | None,
        Doc("file with a source term, a tab and its translation per line, which is used"),
    ] = None
    glossary_method: Annotated[
        GlossaryMethod | None,
        Doc(
            "how the glossary is used: constrained search; annotated terms in the source, for "
            "models that were trained with them; or both, a constrained search where annotation "
            "was not enough; default: both if the model permits it"
        ),
    ] = None
    force: Annotated[
        tuple[str, ...],
        Doc("word that every translation contains, or alternatives (Haus|Hauses); repeatable"),
    ] = ()


class ConstraintKeywords(TypedDict, total=False):
    """The fields of `ConstraintConfig` as keyword arguments; a test checks that they are equal."""

    glossary: GlossarySource | None  # in Python, also terms
    glossary_method: GlossaryMethod | None
    force: tuple[str, ...]
