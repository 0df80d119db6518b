"""Temperature scaling recovers the true temperature, and equals a search over a grid."""

from __future__ import annotations

import pytest
import torch

from regard.data.batch import Batch
from regard.data.pairs import with_eos
from regard.evaluation.token_calibration import calibrate_tokens, fit_temperature
from toys import sentences, small_transformer


@pytest.mark.parametrize("temperature", [0.4, 1.0, 2.5, 8.0])
def test_true_temperature_is_recovered(temperature: float) -> None:
    generator = torch.Generator().manual_seed(3)
    logits = 4 * torch.randn(20_000, 30, generator=generator)
    probabilities = (logits / temperature).softmax(1)
    targets = torch.multinomial(probabilities, 1, generator=generator).squeeze(1)
    chunks = [(logits[:5000], targets[:5000]), (logits[5000:] + 7, targets[5000:])]
    assert fit_temperature(lambda: chunks) == pytest.approx(temperature, rel=0.03)


def test_temperature_of_certain_and_of_wrong_predictions_is_bounded() -> None:
    logits = torch.eye(5) * 3
    assert 0.05 <= fit_temperature(lambda: [(logits, torch.arange(5))]) < 0.1
    assert fit_temperature(lambda: [(-logits, torch.arange(5))]) == pytest.approx(20, rel=0.01)


def test_model_is_calibrated_on_references() -> None:
    model = small_transformer(seed=4)
    sources = sentences(150, seed=1)
    pairs = [*zip(sources, sentences(150, seed=2), strict=True)]
    temperature, curves = calibrate_tokens(model, pairs)
    with torch.inference_mode():
        source, target = (with_eos([*side]) for side in zip(*pairs, strict=True))
        predictions = model(Batch(source, target))
        logits = predictions.project(predictions.hidden)

    def nll(scale: float) -> float:
        return float(torch.nn.functional.cross_entropy(logits / scale, predictions.targets))

    grid = [1.01**n for n in range(-250, 250)]
    assert temperature == pytest.approx(min(grid, key=nll), rel=0.02)
    assert curves.before.nll == pytest.approx(nll(1), rel=1e-4)
    assert curves.after.nll == pytest.approx(nll(temperature), rel=1e-4)
    best = logits.softmax(1).max(1)
    correct = best.indices == predictions.targets
    bins = (best.values * 10).long().clamp(max=9)
    expected = sum(
        float((bins == n).float().mean())
        * abs(float(best.values[bins == n].mean()) - float(correct[bins == n].float().mean()))
        for n in bins.unique().tolist()
    )
    assert curves.before.ece == pytest.approx(expected, abs=1e-3)
