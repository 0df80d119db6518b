"""Language identification of texts by the package py3langid, which needs no network."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from regard.errors import ConfigError
from regard.text.language_codes import base_language

# Text that is in no language, such as numbers: the class of py3langid.
_NO_LANGUAGE = "zxx"


class IdentifiedLanguage(NamedTuple):
    """The most probable language of a text."""

    language: str
    probability: float


class LanguageIdentifier:
    """Identifies the language of texts, among `languages` or among all that the package supports.

    Languages are returned as the caller's codes: with "zh-cn", Chinese texts are "zh-cn".
    """

    def __init__(self, languages: Sequence[str] | None = None) -> None:
        # A copy shares the parameters, but not the selection of languages.
        self._model = copy.copy(_load_model())
        names = supported_languages() if languages is None else dict.fromkeys(languages)
        self._names: dict[str, str] = {}  # by the package's code
        for name in names:
            other = self._names.setdefault(supported_language(name), name)
            if other != name:
                raise ConfigError(
                    f"{other} and {name} are the same language to language identification. Give "
                    "the language of each text."
                )
        self._model.set_languages([*self._names])

    def identify(self, text: str) -> IdentifiedLanguage:
        """The most probable language of a text, and its probability."""
        language, probability = self._model.classify(text)
        return IdentifiedLanguage(self._names[language], probability)


class LanguageVerifier:
    """Compares the expected language of texts with all other languages."""

    def __init__(self, language: str) -> None:
        self._language = supported_language(language)
        self._model = _load_model()

    def probability(self, text: str) -> float:
        """The probability of the expected language against the most probable other one.

        It is 1 if no other language is more probable, and for text in no language, such as numbers.
        Otherwise it is below 0.5; for short texts, which could be in several languages, not much.
        """
        best, _ = self._model.classify(text)
        if best in (self._language, _NO_LANGUAGE):
            return 1.0
        probabilities = dict(self._model.rank(text))
        expected = probabilities[self._language]
        return float(expected / (expected + probabilities[best]))


def supported_language(code: str) -> str:
    """The package's code of a language; raises an error if the package does not support it."""
    language, supported = base_language(code), supported_languages()
    if language not in supported:
        raise ConfigError(
            f"The language {code!r} cannot be identified. Supported are {', '.join(supported)}, "
            "also with script or region (zh-Hans, pt_BR) or as three letters (deu)."
        )
    return language


def supported_languages() -> list[str]:
    """The codes of the languages that the package supports."""
    return sorted({*_load_model().labels} - {_NO_LANGUAGE})


@cache
def _load_model() -> Any:
    """The model of all languages, which is part of the package (5 MB)."""
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError:
        raise ConfigError(
            "Language identification requires the package py3langid, which is not installed. "
            "Install it: pip install 'regard[langid]'"
        ) from None
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
