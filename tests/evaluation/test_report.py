"""Reports contain the requested analyses, and mean and spread of several systems."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evaluation.translations import corrupt, references
from regard.evaluation.metrics import MetricConfig, MetricResult
from regard.evaluation.options import TranslationsOptions
from regard.evaluation.report import EvaluatedSystems, Report, System
from regard.evaluation.summary import summarize

REFERENCES = references()
SYSTEMS = [System(f"seed {seed}", corrupt(REFERENCES, 0.2, seed=seed)) for seed in (1, 2, 3)]


def report(systems: Sequence[System], **options: Any) -> Report:
    test = TranslationsOptions(reference=(Path("right"),), resamples=100, **options)
    return EvaluatedSystems(test, systems, [REFERENCES], None, MetricConfig()).report()


def test_mean_and_spread_match_numpy() -> None:
    values = [40.67, 40.87, 40.61]
    [result] = summarize([[MetricResult("BLEU", value, "")] for value in values])
    assert result.mean == pytest.approx(np.mean(values))
    assert result.spread == pytest.approx(np.std(values, ddof=1))


def test_single_system_has_no_summary_and_no_analyses_by_default() -> None:
    result = report(SYSTEMS[:1])
    assert [system.name for system in result.systems] == ["seed 1"]
    assert not result.systems[0].by_length
    assert not result.systems[0].worst
    assert not result.summary
    assert not result.comparison


def test_several_systems_are_summarized_by_metric() -> None:
    result = report(SYSTEMS, by_length=True, worst=2)
    assert [metric.name for metric in result.summary] == ["BLEU", "chrF2", "TER"]
    bleus = [system.metrics[0].value for system in result.systems]
    assert result.summary[0].mean == pytest.approx(np.mean(bleus))
    assert all(len(system.worst) == 2 for system in result.systems)
    sizes = [[bucket.sentences for bucket in system.by_length] for system in result.systems]
    assert sizes[0] == sizes[1] == sizes[2]


def test_baseline_is_evaluated_but_not_summarized() -> None:
    result = report(SYSTEMS[:2], against=Path("seed 2"))
    assert [system.name for system in result.systems] == ["seed 1", "seed 2"]
    assert result.summary == []
    assert result.comparison[0].against.value == result.systems[1].metrics[0].value
