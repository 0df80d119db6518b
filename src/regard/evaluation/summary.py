"""Mean and standard deviation of metrics over several systems, such as seeds of a recipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev


@dataclass(frozen=True)
class MetricResult:
    """The value of a metric, with sacrebleu's signature."""

    name: str
    value: float
    signature: str


@dataclass(frozen=True)
class MetricSummary:
    """A metric over several systems; the spread is the sample standard deviation."""

    name: str
    mean: float
    spread: float


def summarize(systems: Sequence[Sequence[MetricResult]]) -> list[MetricSummary]:
    """Summarize each metric over the results of several systems; empty for a single system."""
    if len(systems) < 2:
        return []
    return [_summarize_metric(results) for results in zip(*systems, strict=True)]


def _summarize_metric(results: Sequence[MetricResult]) -> MetricSummary:
    values = [result.value for result in results]
    return MetricSummary(results[0].name, fmean(values), stdev(values))
