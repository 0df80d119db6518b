"""Temperature scaling of next-token probabilities (Guo et al., 2017, arXiv:1706.04599).

The model reads the references of a validation set (forced decoding). Calibration divides its logits
by a temperature: that with the smallest NLL of the reference tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.data.calibration import CalibrationCurve, CurvePair
from regard.data.pairs import with_eos
from regard.decoding.backend import DEFAULT_BATCH_SIZE, BatchLimit, IdPair, batch_by_length
from regard.evaluation.reliability import calibration_curve
from regard.models.base import Model
from regard.models.protocol import Predictions

Logits = Iterable[tuple[Tensor, Tensor]]  # chunks of logits (n, V) and targets (n,)
_CHUNK = 4096  # positions whose logits are computed at once
_LOWEST, _HIGHEST = 0.05, 20.0  # temperatures
_MAX_STEPS = 60


@torch.inference_mode()
def calibrate_tokens(model: Model, pairs: Sequence[IdPair]) -> tuple[float, CurvePair]:
    """The temperature for the target tokens of these pairs, and the curves of the best tokens.

    A prediction is the most probable token; it is correct if the reference has it.
    """
    predictions = _predictions(model, pairs)

    def logits() -> Iterator[tuple[Tensor, Tensor]]:
        for prediction in predictions:
            parts = prediction.hidden.split(_CHUNK), prediction.targets.split(_CHUNK)
            for hidden, targets in zip(*parts, strict=True):
                yield prediction.project(hidden).float(), targets

    temperature = fit_temperature(logits)
    return temperature, CurvePair(_curve(logits(), 1.0), _curve(logits(), temperature))


def fit_temperature(logits: Callable[[], Logits]) -> float:
    """The temperature with the smallest NLL of the targets; each call returns all logits.

    The NLL is convex in 1 / temperature, so that Newton's method finds the minimum; a step that
    leaves the interval in which the derivative changes its sign is replaced by bisection.
    """
    low, high, inverse = 1 / _HIGHEST, 1 / _LOWEST, 1.0
    for _ in range(_MAX_STEPS):
        slope, curvature = _derivatives(logits(), inverse)
        low, high = (low, inverse) if slope > 0 else (inverse, high)
        newton = inverse - slope / max(curvature, 1e-12)
        previous, inverse = inverse, newton if low < newton < high else (low + high) / 2
        if abs(inverse - previous) < 1e-5 * previous:
            break
    return 1 / inverse


def _derivatives(logits: Logits, inverse: float) -> tuple[float, float]:
    """The first and second derivative of the NLL by the inverse temperature."""
    slope = curvature = 0.0
    for chunk, targets in logits:
        shifted = chunk - chunk.amax(1, keepdim=True)
        probabilities = (shifted * inverse).softmax(1)
        mean = (probabilities * shifted).sum(1)
        variance = (probabilities * (shifted - mean[:, None]).square()).sum(1)
        slope += float((mean - shifted.gather(1, targets[:, None]).squeeze(1)).double().sum())
        curvature += float(variance.double().sum())
    return slope, curvature


def _curve(logits: Logits, temperature: float) -> CalibrationCurve:
    """The calibration curve of the most probable tokens, and the NLL of the targets."""
    confidences: list[float] = []
    outcomes: list[bool] = []
    nll = 0.0
    for chunk, targets in logits:
        log_probs = (chunk / temperature).log_softmax(1)
        best = log_probs.max(1)
        confidences += best.values.exp().tolist()
        outcomes += (best.indices == targets).tolist()
        nll -= float(log_probs.gather(1, targets[:, None]).double().sum())
    return calibration_curve(confidences, outcomes, nll / max(1, len(outcomes)))


def _predictions(model: Model, pairs: Sequence[IdPair]) -> list[Predictions]:
    """The predictions for all pairs, in batches of similar length."""
    batches = batch_by_length(
        pairs, lambda pair: len(pair[0]) + len(pair[1]), BatchLimit(DEFAULT_BATCH_SIZE)
    )
    predictions = []
    for batch in batches:
        source, target = (with_eos(side) for side in zip(*batch, strict=True))
        predictions.append(model(Batch(source, target).to(model.device)))
    return predictions
