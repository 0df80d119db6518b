"""Significance of the difference between two systems: sacrebleu's paired bootstrap."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sacrebleu.significance import PairedTest

from regard.evaluation.metrics import LOWER_IS_BETTER, MetricConfig, References
from regard.machine import refuse_out_of_memory

_LEVEL = 0.05
_SEED = "12345"  # sacrebleu's own default


@dataclass(frozen=True)
class Estimate:
    """A metric, with the mean and half-width of its 95 % bootstrap confidence interval."""

    value: float
    mean: float
    margin: float


@dataclass(frozen=True)
class Comparison:
    """One metric of two systems, and the p-value of the difference."""

    name: str
    system: Estimate
    against: Estimate
    p_value: float
    signature: str

    @property
    def is_significant(self) -> bool:
        """Whether the p-value is below 0.05."""
        return self.p_value < _LEVEL

    @property
    def is_better(self) -> bool:
        """Whether the system has the better score."""
        higher = self.system.value > self.against.value
        return higher != (self.name in LOWER_IS_BETTER)


def compare(
    hypotheses: Sequence[str],
    against: Sequence[str],
    references: References,
    metric_config: MetricConfig,
    *,
    resamples: int,
) -> list[Comparison]:
    """Compare two systems on one test set by all metrics, with a fixed random seed."""
    refuse_out_of_memory(
        2 * resamples * len(hypotheses),  # sacrebleu draws all of them at once, as int64
        f"A bootstrap of {resamples:,} resamples of {len(hypotheses):,} sentences",
        "Use fewer --resamples.",
    )
    with _fixed_seed():
        signatures, results = PairedTest(
            [("against", list(against)), ("system", list(hypotheses))],
            {type(metric).__name__: metric for metric in metric_config.metrics(quiet=True)},
            references,
            test_type="bs",
            n_samples=resamples,
        )()
    return [
        _to_comparison(name, *results[name], signature=str(signature))
        for name, signature in signatures.items()
    ]


def _to_comparison(name: str, against: Any, system: Any, *, signature: str) -> Comparison:
    # sacrebleu reports its smallest p-value for identical scores.
    p_value = 1.0 if system.score == against.score else float(system.p_value)
    return Comparison(name, _to_estimate(system), _to_estimate(against), p_value, signature)


def _to_estimate(result: Any) -> Estimate:
    return Estimate(float(result.score), float(result.mean), float(result.ci))


@contextmanager
def _fixed_seed() -> Iterator[None]:
    """Set sacrebleu's random seed, which it only reads from the environment."""
    name = "SACREBLEU_SEED"
    previous = os.environ.get(name)
    os.environ[name] = _SEED
    try:
        yield
    finally:
        del os.environ[name]
        if previous is not None:
            os.environ[name] = previous


def summarize_comparison(comparisons: Sequence[Comparison], system: str, against: str) -> str:
    """Return the outcome of a comparison in one sentence."""
    significant = [c for c in comparisons if c.is_significant]
    better = [c.name for c in significant if c.is_better]
    worse = [c.name for c in significant if not c.is_better]
    equal = [c.name for c in comparisons if c.system.value == c.against.value]
    not_significant = [c.name for c in comparisons if not c.is_significant and c.name not in equal]
    by = "by" if significant else "By"
    outcomes = (
        (f"{system} is better than {against} by", better, f"(p < {_LEVEL})"),
        (f"{system} is worse than {against} by", worse, f"(p < {_LEVEL})"),
        (by, not_significant, f"the difference is not significant (p ≥ {_LEVEL})"),
        ("by" if not_significant else by, equal, "they are equal"),
    )
    clauses = [f"{start} {_join(names)} {end}" for start, names, end in outcomes if names]
    return "; ".join(clauses) + "."


def _join(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
