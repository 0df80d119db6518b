"""Tuned weights are those with the highest corpus BLEU."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from regard.evaluation.metrics import MetricConfig, bleu
from regard.evaluation.rerank_tuning import Nbest, tune_weights

WORDS = ["the", "a", "dog", "cat", "house", "runs", "sleeps", "near", "under", "old", "new"]
GRID = [round(0.05 * step, 2) for step in range(61)]


def make_nbests(seed: int, rerankers: int) -> tuple[list[Nbest], list[str]]:
    """Candidates with up to four errors; the first reranker prefers those with few, with noise."""
    draw = random.Random(seed)
    references = [" ".join(draw.choices(WORDS, k=9)) for _ in range(25)]
    nbests = []
    for reference in references:
        texts, rows = [], []
        for _ in range(draw.randint(2, 6)):
            words = reference.split()
            errors = draw.randint(0, 4)
            for position in draw.sample(range(9), errors):
                words[position] = "wrong"
            texts.append(" ".join(words))
            noise = [draw.gauss(0, 1) for _ in range(rerankers)]
            noise[0] -= 0.5 * errors
            rows.append([draw.gauss(0, 1), *noise])
        nbests.append(Nbest(texts, np.array(rows)))
    return nbests, references


def select(nbests: Sequence[Nbest], weights: Sequence[float]) -> list[str]:
    """The candidate of each line with the highest sum of scores."""
    return [
        max(
            zip(nbest.texts, nbest.scores.tolist(), strict=True),
            key=lambda pair: pair[1][0] + float(np.dot(pair[1][1:], weights)),
        )[0]
        for nbest in nbests
    ]


@pytest.mark.parametrize("seed", [1, 2])
def test_one_weight_is_the_best_of_the_grid(seed: int) -> None:
    nbests, references = make_nbests(seed, 1)
    tuned = tune_weights(nbests, [references], MetricConfig())
    scores = [bleu(select(nbests, [weight]), references) for weight in GRID]
    assert tuned.bleu == pytest.approx(max(scores), abs=1e-9)
    assert tuned.weights == [GRID[scores.index(max(scores))]]
    assert tuned.bleu_without == pytest.approx(scores[0], abs=1e-9)
    assert tuned.bleu > tuned.bleu_without + 1
    assert tuned.translations == select(nbests, tuned.weights)


def test_no_weight_can_be_improved_alone() -> None:
    nbests, references = make_nbests(3, 3)
    tuned = tune_weights(nbests, [references], MetricConfig())
    assert tuned.bleu == pytest.approx(bleu(tuned.translations, references), abs=1e-9)
    for index in range(3):
        for value in GRID[::4]:
            weights = [*tuned.weights[:index], value, *tuned.weights[index + 1 :]]
            assert bleu(select(nbests, weights), references) <= tuned.bleu + 1e-9


def test_useless_rerankers_have_weight_zero() -> None:
    nbests, references = make_nbests(4, 2)
    equal = [Nbest(each.texts, each.scores * [1, 0, 0]) for each in nbests]
    tuned = tune_weights(equal, [references], MetricConfig())
    assert tuned.weights == [0.0, 0.0]
    assert tuned.bleu == tuned.bleu_without


def test_several_references_and_the_settings_of_bleu() -> None:
    nbests, references = make_nbests(5, 1)
    config = MetricConfig(lowercase=True)
    others = [line.upper() for line in reversed(references)]
    tuned = tune_weights(nbests, [references, others], config)
    expected = config.bleu(quiet=True).corpus_score(tuned.translations, [references, others]).score
    assert tuned.bleu == pytest.approx(expected, abs=1e-9)
    assert str(tuned) == (
        f"The weights with the highest BLEU are --rerank-weight {tuned.weights[0]:g}: "
        f"{tuned.bleu:.2f}, and {tuned.bleu_without:.2f} without reranking."
    )
