"""Settings of the annotation of terms in training sources; this module has no heavy imports."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from regard.bounds import Ge, Le
from regard.config import Doc, Settings


@dataclass(frozen=True)
class TermAnnotationConfig(Settings):
    """Annotation of terms in training sources."""

    annotate_terms: Annotated[
        float,
        Doc(
            "fraction of training pairs with annotated terms, such as 0.3: words of the source "
            "followed by their translation, for a model that follows glossaries"
        ),
        Ge(0),
        Le(1),
    ] = 0.0
    glossary: Annotated[
        Path | None,
        Doc("with --annotate-terms: glossary of the terms to annotate; default: aligned words"),
    ] = None

    def problems(self) -> Iterator[str]:
        """A glossary needs annotation."""
        yield from super().problems()
        if self.glossary is not None and not self.annotate_terms:
            yield "--glossary has no effect without --annotate-terms. Use both, such as 0.3"

    @property
    def glossary_files(self) -> list[Path]:
        """The glossary, if there is one."""
        return [self.glossary] if self.glossary is not None else []
