"""Filter of sentence pairs with a side that is not in its language."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from regard.data.filters import Report
from regard.text.language_id import LanguageVerifier

NumberedPair = tuple[int, str, str]  # line number, source, target


class LanguageFilter:
    """The filter of one corpus; `languages` are those of source and target, None if unknown.

    A side is rejected if another language is much more probable. Short lines, which could be in
    several languages, are kept.
    """

    def __init__(self, languages: tuple[str | None, str | None], min_probability: float) -> None:
        self._languages = languages
        self._verifiers = [language and LanguageVerifier(language) for language in languages]
        self._min_probability = min_probability
        self._rejected: dict[int, str] | None = None  # reasons by line, after the first pass

    def filter(self, pairs: Iterable[NumberedPair], report: Report) -> Iterator[NumberedPair]:
        """The pairs that pass; others are in the report.

        A corpus is read several times; only the first time, languages are identified.
        """
        known, rejected = self._rejected, {}
        for pair in pairs:
            line, source, target = pair
            reason = self.reason(source, target) if known is None else known.get(line)
            if reason is None:
                yield pair
            else:
                rejected[line] = reason
                report.note(f"{reason}: skipped", line, (source, target))
        self._rejected = rejected

    def reason(self, *sides: str) -> str | None:
        """Why a pair of source and target is rejected; None if it passes."""
        names = zip(("source", "target"), self._languages, strict=True)
        for (name, language), verifier, text in zip(names, self._verifiers, sides, strict=True):
            if verifier and verifier.probability(text) < self._min_probability:
                return f"{name} is not in {language}"
        return None
