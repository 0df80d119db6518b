"""Several systems as one, such as the seeds of a recipe: mean and spread of their figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from regard.evaluation.metrics import Result


@dataclass(frozen=True)
class Summary:
    """A metric over systems; the spread is the sample standard deviation."""

    name: str
    mean: float
    spread: float


def summarize(systems: Sequence[Sequence[Result]]) -> list[Summary]:
    """A summary of each metric, over the results of at least two systems."""
    return [_summary(results) for results in zip(*systems, strict=True)]


def _summary(results: Sequence[Result]) -> Summary:
    values = [result.value for result in results]
    return Summary(results[0].name, fmean(values), stdev(values))
