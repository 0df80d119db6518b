"""Glancing: the number of hints, and targets that are masked in the loss."""

from __future__ import annotations

import pytest
import torch

from regard.data.ragged import Lengths
from regard.layers.ctc import BLANK
from regard.layers.embedding import Projection
from regard.models.nonautoregressive import CtcPredictions, Hints
from regard.models.protocol import Predictions
from regard.tasks.glancing import glancing_hints, glancing_ratio, mask_hinted_targets
from regard.text.special import SPECIAL
from regard.training.config import TrainingConfig


def predictions(tokens: list[int], targets: list[int], labels: list[int] | None) -> Predictions:
    """Confident predictions of these tokens for two sentences of equal length."""
    hidden = 9.0 * torch.nn.functional.one_hot(torch.tensor(tokens), 10).float()
    length = len(tokens) // 2
    arguments = hidden, torch.tensor(targets), Projection(torch.eye(10), bias=False)
    lengths = Lengths.of([length, length])
    if labels is None:
        return Predictions(*arguments, lengths)
    return CtcPredictions(*arguments, lengths, labels=Lengths.of(labels))


def test_only_wrong_sentences_get_hints() -> None:
    right, wrong = [4, 5, 6] * 400, [7, 8, 9] * 400
    predicted = predictions(right + wrong, right + right, None)
    hints = glancing_hints(predicted, torch.tensor(0.5))
    assert hints.tokens.tolist() == right + right
    assert not hints.mask[:1200].any()
    assert float(hints.mask[1200:].float().mean()) == pytest.approx(0.5, abs=0.07)


def test_ctc_hints_are_a_path_of_the_target() -> None:
    predicted = predictions([4, 4, BLANK, 5, 7, 7, 7, 7], [4, 5, 3, 6, 3], [3, 2])
    hints = glancing_hints(predicted, torch.tensor(1.0))
    assert hints.tokens[:4].tolist() == [4, 4, BLANK, 5]  # the predicted path
    assert set(hints.tokens[4:].tolist()) == {6, BLANK} or hints.tokens[4:].tolist() == [6] * 4
    assert not hints.mask[:4].any()
    assert hints.mask[4:].all()


def test_hinted_targets_are_masked() -> None:
    predicted = predictions([4, 5], [4, 6], None)
    hints = Hints(predicted.targets, torch.tensor([True, False]))
    assert mask_hinted_targets(predicted, hints).targets.tolist() == [SPECIAL.pad, 6]
    paths = predictions([4, 5], [4, 6], [1, 1])
    assert mask_hinted_targets(paths, hints) is paths


def test_glancing_ratio_decreases_linearly() -> None:
    config = TrainingConfig(glancing=0.5, glancing_end=0.3, max_steps=100)
    assert [glancing_ratio(step, config) for step in (0, 50, 100, 200)] == pytest.approx(
        [0.5, 0.4, 0.3, 0.3]
    )
