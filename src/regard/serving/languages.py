"""Languages of the served models: their names, the codes that clients use, and detection."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import NamedTuple

from regard.errors import ConfigError
from regard.text.language_codes import base_language


class Detected(NamedTuple):
    """The language of a text, and its probability."""

    language: str
    probability: float


@cache
def _names() -> dict[str, str]:
    rows = (resources.files("regard.exchange") / "languages.tsv").read_text("utf-8").splitlines()
    return dict(row.split("\t") for row in rows)


def language_name(code: str) -> str:
    """The English name of a language, or its code."""
    return _names().get(code) or _names().get(base_language(code), code)


def matching_language(code: str, known: Iterable[str]) -> str | None:
    """The known code that a client's code means: the same, or the same language."""
    listed = [*known]
    lowered = code.lower().replace("_", "-")
    for other in listed:
        if other.lower().replace("_", "-") == lowered:
            return other
    return next((other for other in listed if base_language(other) == base_language(code)), None)


@dataclass(frozen=True)
class LanguageDetector:
    """Detects which of some languages a text is in."""

    languages: Sequence[str]

    def detect(self, text: str) -> Detected:
        """The most probable language; the first if language identification is not available."""
        identifier = _identifier((*sorted(self.languages),))
        if identifier is None:
            return Detected(self.languages[0], 1.0 if len(self.languages) == 1 else 0.0)
        language, probability = identifier.identify(text)  # type: ignore[attr-defined]
        return Detected(language, float(probability))


@cache
def _identifier(languages: tuple[str, ...]) -> object | None:
    """The identifier of these languages; None if one is not supported, or the package missing."""
    from regard.text.language_id import LanguageIdentifier

    try:
        return LanguageIdentifier(languages)
    except ConfigError:
        return None
