"""All that is said of some systems on one test set, in one form for people and programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from regard.evaluation.analysis import LengthBucket, Sentence, by_length, worst
from regard.evaluation.metrics import Counting, References, Result, evaluate
from regard.evaluation.significance import Comparison, compare
from regard.evaluation.summary import Summary, summarize


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


def report(
    systems: Sequence[System],
    references: References,
    counting: Counting,
    *,
    resamples: int,
    sources: Sequence[str] | None = None,
    against: System | None = None,
    lengths: bool = False,
    worst_count: int = 0,
) -> Report:
    """Measure the systems, and the one that they are held against as the last of them."""
    assert against is None or len(systems) == 1

    def measured(system: System) -> Measured:
        texts = system.translations
        return Measured(
            system.name,
            evaluate(texts, references, counting),
            by_length(texts, references, counting) if lengths else [],
            worst(texts, references, counting, count=worst_count, sources=sources)
            if worst_count
            else [],
        )

    found = [measured(system) for system in (*systems, *([against] if against else []))]
    if against is None:
        return Report(found, summarize([system.metrics for system in found]), [])
    texts = systems[0].translations
    compared = compare(texts, against.translations, references, counting, resamples=resamples)
    return Report(found, [], compared)
