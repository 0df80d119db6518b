"""Several systems as one, such as the seeds of a recipe: mean and spread of their figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev


@dataclass(frozen=True)
class Result:
    """A figure that can be quoted: the number and how it was counted."""

    name: str
    value: float
    signature: str


@dataclass(frozen=True)
class Summary:
    """A metric over systems; the spread is the sample standard deviation."""

    name: str
    mean: float
    spread: float


def summarize(systems: Sequence[Sequence[Result]]) -> list[Summary]:
    """A summary of each metric, over the results of several systems; none of one."""
    if len(systems) < 2:
        return []
    return [_summary(results) for results in zip(*systems, strict=True)]


def _summary(results: Sequence[Result]) -> Summary:
    values = [result.value for result in results]
    return Summary(results[0].name, fmean(values), stdev(values))
