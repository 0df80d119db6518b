"""A difference means something when chance does not make it."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest

from evaluation.translations import damaged, references
from regard.evaluation.metrics import Counting, evaluate
from regard.evaluation.significance import Comparison, Estimate, compare, verdict

RIGHT = references()
GOOD, BAD = damaged(RIGHT, 0.1), damaged(RIGHT, 0.4)


def compared(system: list[str], against: list[str]) -> list[Comparison]:
    return compare(system, against, [RIGHT], Counting(), resamples=100)


def test_figures_are_those_of_each_system_alone() -> None:
    found = compared(GOOD, BAD)
    assert [c.name for c in found] == ["BLEU", "chrF2", "TER"]
    for one, system, against in zip(
        found, evaluate(GOOD, [RIGHT], Counting()), evaluate(BAD, [RIGHT], Counting()), strict=True
    ):
        assert (one.system.value, one.against.value) == (system.value, against.value)


def test_intervals_and_p_are_sacrebleus() -> None:
    other = damaged(RIGHT, 0.12, seed=5)
    systems: list[tuple[str, Sequence[str]]] = [("baseline", other), ("system", GOOD)]
    _, expected = PairedTest(systems, {"bleu": BLEU()}, [RIGHT], test_type="bs", n_samples=100)()
    baseline, system = expected["BLEU"]
    assert not isinstance(baseline, str)
    assert not isinstance(system, str)
    [bleu, _, _] = compared(GOOD, other)
    assert bleu.system == Estimate(system.score, system.mean or 0, system.ci or 0)
    assert bleu.against == Estimate(baseline.score, baseline.mean or 0, baseline.ci or 0)
    assert bleu.p_value == system.p_value
    assert "bs:100|seed:12345" in bleu.signature


def test_a_clearly_better_system_is_better_either_way_round() -> None:
    for one, mirrored in zip(compared(GOOD, BAD), compared(BAD, GOOD), strict=True):
        assert one.is_significant
        assert one.is_better
        assert mirrored.is_significant
        assert not mirrored.is_better
        assert one.system.margin > 0


def test_a_system_is_no_better_than_itself() -> None:
    for one in compared(GOOD, GOOD):
        assert one.p_value == 1  # sacrebleu itself says 1/101, as if it were sure
        assert not one.is_significant


def test_a_difference_that_a_metric_does_not_see_is_none() -> None:
    [bleu, _, ter] = compared([line.upper() for line in GOOD], GOOD)
    assert bleu.is_significant
    assert ter.p_value == 1  # counted without case


@pytest.mark.parametrize("seed", ["0", "7", "none"])
def test_the_environment_changes_nothing(seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    other = damaged(RIGHT, 0.12, seed=5)
    expected = compared(GOOD, other)
    monkeypatch.setenv("SACREBLEU_SEED", seed)
    assert compared(GOOD, other) == expected
    assert os.environ["SACREBLEU_SEED"] == seed


def one(name: str, system: float, against: float, p: float) -> Comparison:
    return Comparison(name, Estimate(system, 0, 0), Estimate(against, 0, 0), p, "")


def test_verdicts() -> None:
    sure = [one("BLEU", 30, 20, 0.01), one("chrF2", 50, 40, 0.01), one("TER", 40, 50, 0.01)]
    assert verdict(sure, "a", "b") == "a is better than b by BLEU, chrF2 and TER (p < 0.05)."
    mixed = [one("BLEU", 30, 20, 0.01), one("chrF2", 50, 51, 0.3), one("TER", 60, 50, 0.049)]
    assert verdict(mixed, "a", "b") == (
        "a is better than b by BLEU (p < 0.05); a is worse than b by TER (p < 0.05); "
        "by chrF2 the difference may be chance (p ≥ 0.05)."
    )
    unsure = [one("BLEU", 30, 20, 0.05), one("TER", 60, 50, 0.9)]
    assert verdict(unsure, "a", "b") == ("By BLEU and TER the difference may be chance (p ≥ 0.05).")
