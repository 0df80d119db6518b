"""Significance tests match sacrebleu's paired bootstrap."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest

from evaluation.translations import corrupt, references
from regard.evaluation.metrics import MetricConfig, evaluate
from regard.evaluation.significance import Comparison, Estimate, compare, summarize_comparison

REFERENCES = references()
GOOD, BAD = corrupt(REFERENCES, 0.1), corrupt(REFERENCES, 0.4)


def compare_systems(system: list[str], against: list[str]) -> list[Comparison]:
    return compare(system, against, [REFERENCES], MetricConfig(), resamples=100)


def test_scores_match_those_of_each_system_alone() -> None:
    comparisons = compare_systems(GOOD, BAD)
    assert [c.name for c in comparisons] == ["BLEU", "chrF2", "TER"]
    for comparison, system, against in zip(
        comparisons,
        evaluate(GOOD, [REFERENCES], MetricConfig()),
        evaluate(BAD, [REFERENCES], MetricConfig()),
        strict=True,
    ):
        assert (comparison.system.value, comparison.against.value) == (system.value, against.value)


def test_intervals_and_p_values_match_sacrebleu() -> None:
    other = corrupt(REFERENCES, 0.12, seed=5)
    systems: list[tuple[str, Sequence[str]]] = [("baseline", other), ("system", GOOD)]
    _, expected = PairedTest(
        systems, {"bleu": BLEU()}, [REFERENCES], test_type="bs", n_samples=100
    )()
    baseline, system = expected["BLEU"]
    assert not isinstance(baseline, str)
    assert not isinstance(system, str)
    [bleu, _, _] = compare_systems(GOOD, other)
    assert bleu.system == Estimate(system.score, system.mean or 0, system.ci or 0)
    assert bleu.against == Estimate(baseline.score, baseline.mean or 0, baseline.ci or 0)
    assert bleu.p_value == system.p_value
    assert "bs:100|seed:12345" in bleu.signature


def test_comparison_is_antisymmetric() -> None:
    for comparison, mirrored in zip(
        compare_systems(GOOD, BAD), compare_systems(BAD, GOOD), strict=True
    ):
        assert comparison.is_significant
        assert comparison.is_better
        assert mirrored.is_significant
        assert not mirrored.is_better
        assert comparison.system.margin > 0


def test_identical_systems_are_not_significantly_different() -> None:
    for comparison in compare_systems(GOOD, GOOD):
        assert comparison.p_value == 1  # sacrebleu reports 1/101
        assert not comparison.is_significant


def test_equal_scores_have_p_value_1() -> None:
    [bleu, _, ter] = compare_systems([line.upper() for line in GOOD], GOOD)
    assert bleu.is_significant
    assert ter.p_value == 1  # case-insensitive


@pytest.mark.parametrize("seed", ["0", "7", "none"])
def test_sacrebleu_seed_in_environment_has_no_effect(
    seed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = corrupt(REFERENCES, 0.12, seed=5)
    expected = compare_systems(GOOD, other)
    monkeypatch.setenv("SACREBLEU_SEED", seed)
    assert compare_systems(GOOD, other) == expected
    assert os.environ["SACREBLEU_SEED"] == seed


def comparison(name: str, system: float, against: float, p: float) -> Comparison:
    return Comparison(name, Estimate(system, 0, 0), Estimate(against, 0, 0), p, "")


def test_summaries_of_comparisons() -> None:
    better = [
        comparison("BLEU", 30, 20, 0.01),
        comparison("chrF2", 50, 40, 0.01),
        comparison("TER", 40, 50, 0.01),
    ]
    assert (
        summarize_comparison(better, "a", "b")
        == "a is better than b by BLEU, chrF2 and TER (p < 0.05)."
    )
    mixed = [
        comparison("BLEU", 30, 20, 0.01),
        comparison("chrF2", 50, 51, 0.3),
        comparison("TER", 60, 50, 0.049),
    ]
    assert summarize_comparison(mixed, "a", "b") == (
        "a is better than b by BLEU (p < 0.05); a is worse than b by TER (p < 0.05); "
        "by chrF2 the difference is not significant (p ≥ 0.05)."
    )
    insignificant = [comparison("BLEU", 30, 20, 0.05), comparison("TER", 60, 50, 0.9)]
    assert summarize_comparison(insignificant, "a", "b") == (
        "By BLEU and TER the difference is not significant (p ≥ 0.05)."
    )
