"""A report holds what was asked for; several systems get their mean and spread."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evaluation.translations import damaged, references
from regard.evaluation.metrics import Counting, Result
from regard.evaluation.options import TranslationsOptions
from regard.evaluation.report import EvaluatedSystems, Report, System
from regard.evaluation.summary import summarize

RIGHT = references()
SYSTEMS = [System(f"seed {seed}", damaged(RIGHT, 0.2, seed=seed)) for seed in (1, 2, 3)]


def report(systems: Sequence[System], **options: Any) -> Report:
    test = TranslationsOptions(reference=(Path("right"),), resamples=100, **options)
    return EvaluatedSystems(test, systems, [RIGHT], None, Counting()).report()


def test_mean_and_spread_are_numpys() -> None:
    values = [40.67, 40.87, 40.61]
    [found] = summarize([[Result("BLEU", value, "")] for value in values])
    assert found.mean == pytest.approx(np.mean(values))
    assert found.spread == pytest.approx(np.std(values, ddof=1))


def test_one_system_has_no_summary_and_nothing_that_was_not_asked_for() -> None:
    found = report(SYSTEMS[:1])
    assert [system.name for system in found.systems] == ["seed 1"]
    assert not found.systems[0].by_length
    assert not found.systems[0].worst
    assert not found.summary
    assert not found.comparison


def test_several_systems_are_summarised_in_the_order_of_the_metrics() -> None:
    found = report(SYSTEMS, by_length=True, worst=2)
    assert [metric.name for metric in found.summary] == ["BLEU", "chrF2", "TER"]
    bleus = [system.metrics[0].value for system in found.systems]
    assert found.summary[0].mean == pytest.approx(np.mean(bleus))
    assert all(len(system.worst) == 2 for system in found.systems)
    sizes = [[bucket.sentences for bucket in system.by_length] for system in found.systems]
    assert sizes[0] == sizes[1] == sizes[2]


def test_a_rival_is_measured_too_and_never_part_of_a_mean() -> None:
    found = report(SYSTEMS[:2], against=Path("seed 2"))
    assert [system.name for system in found.systems] == ["seed 1", "seed 2"]
    assert found.summary == []
    assert found.comparison[0].against.value == found.systems[1].metrics[0].value
