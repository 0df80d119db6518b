"""Calibration of probabilities: calibration curves, and the fit of Platt scaling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard.data.calibration import BINS, CalibrationCurve, PlattScaling, logit

Array = NDArray[np.float64]
_MIN_SLOPE, _MAX_SLOPE, _MAX_BIAS = 0.01, 100.0, 100.0  # the bounds of `PlattScaling`
_MAX_STEPS = 100


def calibration_curve(
    confidences: Sequence[float], outcomes: Sequence[float], nll: float | None = None
) -> CalibrationCurve:
    """The calibration curve of predictions; an outcome is 1 or 0, or the fraction that is correct.

    `nll` is that of the predictions if they are not binary; default: the cross-entropy.
    """
    p = np.clip(np.asarray(confidences, np.float64), 0, 1)
    y = np.asarray(outcomes, np.float64)
    bins = np.minimum((p * BINS).astype(np.int64), BINS - 1)
    counts = np.bincount(bins, minlength=BINS)

    def means(values: Array) -> tuple[float, ...]:
        sums = np.bincount(bins, values, minlength=BINS) / np.maximum(counts, 1)
        return tuple(np.clip(sums, 0, 1).tolist())

    if nll is None:
        x = _logits(p)
        nll = float(np.mean(np.logaddexp(0, x) - y * x)) if len(x) else 0.0
    return CalibrationCurve(tuple(counts.tolist()), means(p), means(y), nll)


def fit_platt_scaling(probabilities: Sequence[float], outcomes: Sequence[bool]) -> PlattScaling:
    """The scaling with the smallest NLL of the outcomes (Platt, 1999), by Newton's method.

    As in Platt's paper, the targets are smoothed, so that the minimum is finite even if a threshold
    separates the outcomes.
    """
    x, y = _logits(np.asarray(probabilities, np.float64)), np.asarray(outcomes, np.bool_)
    positive = int(y.sum())
    targets = np.where(y, (positive + 1) / (positive + 2), 1 / (len(y) - positive + 2))
    slope, bias = _minimize(x, targets, np.array([1.0, 0.0]), fixed_slope=False)
    if not _MIN_SLOPE <= slope <= _MAX_SLOPE:  # more probable words are not more often correct
        start = np.array([np.clip(slope, _MIN_SLOPE, _MAX_SLOPE), 0.0])
        slope, bias = _minimize(x, targets, start, fixed_slope=True)
    return PlattScaling(1 / slope, float(np.clip(bias, -_MAX_BIAS, _MAX_BIAS)))


def _minimize(x: Array, targets: Array, start: Array, *, fixed_slope: bool) -> tuple[float, float]:
    """The slope and bias that minimize the convex cross-entropy, by damped Newton steps."""
    features = np.stack([np.zeros_like(x) if fixed_slope else x, np.ones_like(x)], 1)
    offset = start[0] * x if fixed_slope else np.zeros_like(x)

    def loss(parameters: Array) -> float:
        z = features @ parameters + offset
        return float(np.sum(np.logaddexp(0, z) - targets * z))

    parameters = np.array([0.0, start[1]]) if fixed_slope else start
    for _ in range(_MAX_STEPS):
        p = 1 / (1 + np.exp(-np.clip(features @ parameters + offset, -500, 500)))
        gradient = features.T @ (p - targets)
        hessian = features.T @ (features * (p * (1 - p))[:, None]) + 1e-9 * np.eye(2)
        step = np.linalg.solve(hessian, gradient)
        size, current = 1.0, loss(parameters)
        while loss(parameters - size * step) > current and size > 1e-6:
            size /= 2
        parameters = parameters - size * step
        if np.abs(step).max() < 1e-8:
            break
    slope, bias = parameters.tolist()
    return (float(start[0]) if fixed_slope else slope), bias


def _logits(probabilities: Array) -> Array:
    return np.array([logit(p) for p in probabilities.tolist()], np.float64)
