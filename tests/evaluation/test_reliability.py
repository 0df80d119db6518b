"""Calibration curves equal plain loops; Platt scaling finds the parameters of synthetic data."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.calibration import BINS, PlattScaling
from regard.evaluation.reliability import calibration_curve, fit_platt_scaling

unit = st.floats(0, 1)


def reference_ece(confidences: list[float], outcomes: list[float]) -> float:
    error = 0.0
    for number in range(BINS):
        low, high = number / BINS, (number + 1) / BINS
        members = [
            (c, y)
            for c, y in zip(confidences, outcomes, strict=True)
            if low <= c < high or (number == BINS - 1 and c == 1)
        ]
        if members:
            confidence = math.fsum(c for c, _ in members) / len(members)
            accuracy = math.fsum(y for _, y in members) / len(members)
            error += len(members) / len(confidences) * abs(confidence - accuracy)
    return error


@given(st.lists(st.tuples(st.integers(0, 1000), st.booleans() | unit), min_size=1))
def test_curve_equals_a_plain_loop(pairs: list[tuple[int, float]]) -> None:
    # Halves of thousandths, which are not at the bounds of bins.
    confidences = [min(1.0, (n + 0.5) / 1000) for n, _ in pairs]
    outcomes = [float(y) for _, y in pairs]
    curve = calibration_curve(confidences, outcomes)
    assert curve.ece == pytest.approx(reference_ece(confidences, outcomes), abs=1e-9)
    assert sum(curve.counts) == len(pairs)
    clipped = [min(max(c, 1e-6), 1 - 1e-6) for c in confidences]
    nll = [
        -(y * math.log(c) + (1 - y) * math.log(1 - c))
        for c, y in zip(clipped, outcomes, strict=True)
    ]
    assert curve.nll == pytest.approx(math.fsum(nll) / len(nll), abs=1e-9)


def test_perfect_confidences_have_no_error() -> None:
    curve = calibration_curve([0.0, 1.0, 1.0], [0, 1, 1])
    assert curve.ece == 0
    assert (curve.counts[0], curve.counts[-1]) == (1, 2)
    assert calibration_curve([], []).ece == 0


@pytest.mark.parametrize(("temperature", "bias"), [(1.0, 0.0), (2.0, -1.0), (0.5, 0.7)])
def test_fit_recovers_the_parameters(temperature: float, bias: float) -> None:
    draw = np.random.default_rng(1)
    probabilities = draw.uniform(0.02, 0.98, 40_000).tolist()
    true = [PlattScaling(temperature, bias)(p) for p in probabilities]
    outcomes = (draw.random(len(true)) < true).tolist()
    fitted = fit_platt_scaling(probabilities, outcomes)
    assert fitted.temperature == pytest.approx(temperature, rel=0.05)
    assert fitted.bias == pytest.approx(bias, abs=0.06)
    before = calibration_curve(probabilities, outcomes)
    after = calibration_curve([*map(fitted, probabilities)], outcomes)
    assert after.ece < 0.02
    assert after.nll <= before.nll + 1e-6


def test_fit_is_a_minimum() -> None:
    draw = np.random.default_rng(2)
    probabilities = draw.beta(5, 1, 500).tolist()
    outcomes = (draw.random(500) < [0.7 * p for p in probabilities]).tolist()
    fitted = fit_platt_scaling(probabilities, outcomes)

    def nll(temperature: float, bias: float) -> float:
        scaling = PlattScaling(temperature, bias)
        return calibration_curve([*map(scaling, probabilities)], outcomes).nll

    best = nll(fitted.temperature, fitted.bias)
    for factor in (0.9, 1.1):
        assert best < nll(fitted.temperature * factor, fitted.bias)
        assert best < nll(fitted.temperature, fitted.bias + factor - 1)


@given(st.lists(st.tuples(unit, st.booleans()), min_size=1, max_size=40))
def test_any_data_have_a_fit(pairs: list[tuple[float, bool]]) -> None:
    """Also data that a threshold separates, or in which probable words are less often correct."""
    probabilities, outcomes = [p for p, _ in pairs], [y for _, y in pairs]
    fitted = fit_platt_scaling(probabilities, outcomes)
    assert not list(fitted.problems())
    assert all(0 <= fitted(p) <= 1 for p in probabilities)
