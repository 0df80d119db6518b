"""Dual conditional cross-entropy: the formula, and the scores of two models."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from directions import write_directions_store
from regard.data.store import Store
from regard.errors import ConfigError
from regard.pipelines.dual_cross_entropy import DualScorer, dual_scores
from regard.pipelines.translator import Translator
from toys import write_model_folder

entropies = st.floats(0, 20)
TEXTS = [("a b c", "c b a"), ("d", "d"), ("a b c d e", "a"), ("b b", "c c c c")]


@given(entropies, entropies)
def test_scores_are_high_if_both_models_agree(forward: float, reverse: float) -> None:
    def score(first: float, second: float) -> float:
        return float(dual_scores(np.array([first]), np.array([second]))[0])

    difference, mean = abs(forward - reverse), (forward + reverse) / 2
    assert score(forward, reverse) == pytest.approx(math.exp(-difference) * math.exp(-mean))
    assert score(forward, reverse) == score(reverse, forward) <= score(mean, mean) * (1 + 1e-9)
    assert score(0, 0) == 1


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, reversal_store: Store) -> list[Translator]:
    """Two models with different random weights, from xx to yy and from yy to xx."""
    folder = tmp_path_factory.mktemp("models")
    write_model_folder(folder / "forward", reversal_store)
    write_model_folder(folder / "reverse", reversal_store, ffn_dim=64)
    config = folder / "reverse" / "config.json"
    swapped = '"source": "yy",\n    "target": "xx"'
    text = config.read_text().replace('"source": "xx",\n    "target": "yy"', swapped)
    assert swapped in text
    config.write_text(text)
    return [
        Translator.load(folder / name, device="cpu", backend="torch")
        for name in ("forward", "reverse")
    ]


@pytest.mark.parametrize("window", [None, 2])
def test_cross_entropies_are_those_of_each_direction(
    models: list[Translator], window: int | None
) -> None:
    forward, reverse = models
    scores = DualScorer(forward, reverse, {"window": window}).scores(lambda task: iter(TEXTS))
    sources, targets = ([*side] for side in zip(*TEXTS, strict=True))
    expected = {
        "forward": -np.array(forward.score(sources, targets)),
        "reverse": -np.array(reverse.score(targets, sources)),
    }
    expected["dual"] = dual_scores(expected["forward"], expected["reverse"])
    assert [*scores] == [*expected]
    for name, values in expected.items():
        np.testing.assert_allclose(scores[name], values, rtol=1e-4)
    assert not np.allclose(scores["forward"], scores["reverse"])


def test_models_of_the_same_direction_are_refused(models: list[Translator]) -> None:
    message = "forward translates from xx to yy, and .*forward from xx to yy, which is not the opp"
    with pytest.raises(ConfigError, match=message):
        DualScorer(models[0], models[0])


def test_models_of_other_languages_are_refused(models: list[Translator]) -> None:
    forward, reverse = models
    DualScorer(forward, reverse, languages=("xx", None))
    with pytest.raises(ConfigError, match="forward translates xx to yy, but is given for yy to xx"):
        DualScorer(forward, reverse, languages=("yy", "xx"))


def test_a_model_of_several_directions(tmp_path: Path) -> None:
    model = Translator.load(
        write_model_folder(tmp_path / "model", write_directions_store(tmp_path)),
        device="cpu",
        backend="torch",
    )
    with pytest.raises(ConfigError, match="Give the languages of the corpus: --source-lang and"):
        DualScorer(model, model)
    with pytest.raises(ConfigError, match="the source languages of this model"):
        DualScorer(model, model, languages=("xx", "zz"))
    scores = DualScorer(model, model, languages=("xx", "yy")).scores(lambda task: iter(TEXTS))
    sources, targets = ([*side] for side in zip(*TEXTS, strict=True))
    for name, sides, language in (
        ("forward", (sources, targets), "yy"),
        ("reverse", (targets, sources), "xx"),
    ):
        expected = -np.array(model.score(*sides, target_lang=language))
        np.testing.assert_allclose(scores[name], expected, rtol=1e-4)
