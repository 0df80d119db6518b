"""All that is said of some systems on one test set, in one form for people and programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from regard.evaluation.analysis import LengthBucket, Sentence, by_length, worst
from regard.evaluation.metrics import Counting, References, Result, evaluate
from regard.evaluation.significance import Comparison, compare


@dataclass(frozen=True)
class System:
    """Whatever has translated a test set: a model, a file of unknown origin."""

    name: str
    translations: Sequence[str]


@dataclass(frozen=True)
class Measured:
    """A system's figures; what was not asked for is empty."""

    name: str
    results: list[Result]
    by_length: list[LengthBucket]
    worst: list[Sentence]


@dataclass(frozen=True)
class Summary:
    """A metric over several systems, such as the seeds of a recipe.

    The spread is the sample standard deviation.
    """

    name: str
    mean: float
    spread: float


@dataclass(frozen=True)
class Report:
    """All systems, and either the summary of several or the comparison of one with another."""

    systems: list[Measured]
    summary: list[Summary]
    comparison: list[Comparison]


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
        summary = summarize([system.results for system in found]) if len(found) > 1 else []
        return Report(found, summary, [])
    texts = systems[0].translations
    compared = compare(texts, against.translations, references, counting, resamples=resamples)
    return Report(found, [], compared)


def summarize(systems: Sequence[Sequence[Result]]) -> list[Summary]:
    """A summary of each metric, over the results of at least two systems."""
    return [_summary(results) for results in zip(*systems, strict=True)]


def _summary(results: Sequence[Result]) -> Summary:
    values = [result.value for result in results]
    return Summary(results[0].name, fmean(values), stdev(values))
