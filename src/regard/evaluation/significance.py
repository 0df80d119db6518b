"""Whether one system is better than another, or only luckier: sacrebleu's paired bootstrap."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sacrebleu.significance import PairedTest

from regard.evaluation.metrics import LOWER_IS_BETTER, Counting, References
from regard.memory import refuse_beyond

_LEVEL = 0.05
_SEED = "12345"  # sacrebleu's own default


@dataclass(frozen=True)
class Estimate:
    """A figure, and the middle and half the width of its 95 % interval over resamples."""

    value: float
    mean: float
    margin: float


@dataclass(frozen=True)
class Comparison:
    """Two systems by one metric; `p_value` is how easily chance makes such a difference."""

    name: str
    system: Estimate
    against: Estimate
    p_value: float
    signature: str

    @property
    def is_significant(self) -> bool:
        """Whether the difference means anything."""
        return self.p_value < _LEVEL

    @property
    def is_better(self) -> bool:
        """Whether the system has the better figure."""
        higher = self.system.value > self.against.value
        return higher != (self.name in LOWER_IS_BETTER)


def compare(
    hypotheses: Sequence[str],
    against: Sequence[str],
    references: References,
    counting: Counting,
    *,
    resamples: int,
) -> list[Comparison]:
    """All metrics of two systems on one test set; the same texts always get the same answer."""
    refuse_beyond(
        2 * resamples * len(hypotheses),  # sacrebleu draws them at once, as 64-bit integers
        f"A bootstrap of {resamples:,} resamples of {len(hypotheses):,} sentences",
        "Use fewer --resamples.",
    )
    with _fixed_seed():
        signatures, results = PairedTest(
            [("against", list(against)), ("system", list(hypotheses))],
            {type(metric).__name__: metric for metric in counting.metrics(quiet=True)},
            references,
            test_type="bs",
            n_samples=resamples,
        )()
    return [
        _comparison(name, *results[name], signature=str(signature))
        for name, signature in signatures.items()
    ]


def _comparison(name: str, against: Any, system: Any, *, signature: str) -> Comparison:
    # sacrebleu gives systems that do not differ at all its smallest p; any chance does as much.
    p_value = 1.0 if system.score == against.score else float(system.p_value)
    return Comparison(name, _estimate(system), _estimate(against), p_value, signature)


def _estimate(result: Any) -> Estimate:
    return Estimate(float(result.score), float(result.mean), float(result.ci))


@contextmanager
def _fixed_seed() -> Iterator[None]:
    """Hand sacrebleu its seed, which it takes from the environment and nowhere else."""
    name = "SACREBLEU_SEED"
    before = os.environ.get(name)
    os.environ[name] = _SEED
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before


def verdict(comparisons: Sequence[Comparison], system: str, against: str) -> str:
    """What a comparison comes to, in one sentence."""
    sure = [c for c in comparisons if c.is_significant]
    better = [c.name for c in sure if c.is_better]
    worse = [c.name for c in sure if not c.is_better]
    equal = [c.name for c in comparisons if c.system.value == c.against.value]
    chance = [c.name for c in comparisons if not c.is_significant and c.name not in equal]
    by = "by" if sure else "By"
    outcomes = (
        (f"{system} is better than {against} by", better, f"(p < {_LEVEL})"),
        (f"{system} is worse than {against} by", worse, f"(p < {_LEVEL})"),
        (by, chance, f"the difference may be chance (p ≥ {_LEVEL})"),
        ("by" if chance else by, equal, "they are equal"),
    )
    said = [f"{whom} {_listed(names)} {what}" for whom, names, what in outcomes if names]
    return "; ".join(said) + "."


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
