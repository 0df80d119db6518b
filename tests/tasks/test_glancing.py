"""Glancing shows what is wrong, by shares, and nothing is learned from what was shown."""

from __future__ import annotations

import pytest
import torch

from regard.data.ragged import Lengths
from regard.layers.ctc import BLANK
from regard.layers.embedding import Projection
from regard.models.nonautoregressive import CtcPredictions, Hints
from regard.models.protocol import Predictions
from regard.tasks.glancing import glanced, glancing_ratio, unseen
from regard.text.special import SPECIAL
from regard.training.config import TrainingConfig


def predictions(words: list[int], targets: list[int], labels: list[int] | None) -> Predictions:
    """What a model says that is sure of its words, of two sentences of equal length."""
    hidden = 9.0 * torch.nn.functional.one_hot(torch.tensor(words), 10).float()
    half = len(words) // 2
    said = hidden, torch.tensor(targets), Projection(torch.eye(10), bias=False)
    lengths = Lengths.of([half, half])
    if labels is None:
        return Predictions(*said, lengths)
    return CtcPredictions(*said, lengths, labels=Lengths.of(labels))


def test_only_wrong_sentences_are_shown_anything() -> None:
    right, wrong = [4, 5, 6] * 400, [7, 8, 9] * 400
    said = predictions(right + wrong, right + right, None)
    hints = glanced(said, torch.tensor(0.5))
    assert hints.tokens.tolist() == right + right
    assert not hints.given[:1200].any()
    assert float(hints.given[1200:].float().mean()) == pytest.approx(0.5, abs=0.07)


def test_a_path_of_the_target_is_shown() -> None:
    said = predictions([4, 4, BLANK, 5, 7, 7, 7, 7], [4, 5, 3, 6, 3], [3, 2])
    hints = glanced(said, torch.tensor(1.0))
    assert hints.tokens[:4].tolist() == [4, 4, BLANK, 5]  # as it was written
    assert set(hints.tokens[4:].tolist()) == {6, BLANK} or hints.tokens[4:].tolist() == [6] * 4
    assert not hints.given[:4].any()
    assert hints.given[4:].all()


def test_nothing_is_learned_from_what_was_shown() -> None:
    said = predictions([4, 5], [4, 6], None)
    hints = Hints(said.targets, torch.tensor([True, False]))
    assert unseen(said, hints).targets.tolist() == [SPECIAL.pad, 6]
    paths = predictions([4, 5], [4, 6], [1, 1])
    assert unseen(paths, hints) is paths


def test_the_ratio_goes_down_evenly() -> None:
    config = TrainingConfig(glancing=0.5, glancing_end=0.3, max_steps=100)
    assert [glancing_ratio(step, config) for step in (0, 50, 100, 200)] == pytest.approx(
        [0.5, 0.4, 0.3, 0.3]
    )
