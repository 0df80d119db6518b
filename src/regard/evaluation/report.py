"""All that is said of some systems on one test set, in one form for people and programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from regard.evaluation.analysis import LengthBucket, Sentence, by_length, worst
from regard.evaluation.metrics import Counting, References, Result, evaluate
from regard.evaluation.options import TranslationsOptions
from regard.evaluation.significance import Comparison, compare
from regard.evaluation.summary import Summary, summarize
from regard.files import write_text


@dataclass(frozen=True)
class System:
    """Whatever has translated a test set: a model, a file of unknown origin."""

    name: str
    translations: Sequence[str]


@dataclass(frozen=True)
class Measured:
    """A system's figures; what was not asked for is empty."""

    name: str
    metrics: list[Result]
    by_length: list[LengthBucket]
    worst: list[Sentence]


@dataclass(frozen=True)
class Report:
    """All systems, and either the summary of several or the comparison of one with another."""

    systems: list[Measured]
    summary: list[Summary]
    comparison: list[Comparison]

    def rows(self) -> list[dict[str, Any]]:
        """A result for each system; the comparison is a part of the first."""
        compared = [self.comparison, *([] for _ in self.systems[1:])]
        return [
            {**asdict(system), "comparison": [*map(asdict, comparison)]}
            for system, comparison in zip(self.systems, compared, strict=True)
        ]


@dataclass(frozen=True)
class EvaluatedSystems:
    """What all systems have made of a test set."""

    test: TranslationsOptions
    systems: Sequence[System]  # that of `against` last
    references: References
    sources: Sequence[str] | None
    counting: Counting

    def report(self) -> Report:
        """The figures that the test asks for."""
        how = self.references, self.counting
        found = [
            Measured(
                system.name,
                evaluate(system.translations, *how),
                by_length(system.translations, *how) if self.test.by_length else [],
                worst(system.translations, *how, count=self.test.worst, sources=self.sources),
            )
            for system in self.systems
        ]
        if self.test.against is None:
            return Report(found, summarize([system.metrics for system in found]), [])
        system, against = (one.translations for one in self.systems)
        return Report(found, [], compare(system, against, *how, resamples=self.test.resamples))

    def write_translations(self) -> None:
        """The translations of the model, if they shall be kept."""
        if self.test.out:
            write_text(self.test.out, "".join(f"{text}\n" for text in self.systems[0].translations))
