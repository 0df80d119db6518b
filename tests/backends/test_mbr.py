"""Minimum Bayes risk decoding: the candidate with the highest expected utility wins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

import regard
from regard.backends.mbr import make_utility
from regard.backends.utilities import make_bleu
from regard.data.directions import DirectionStatistics
from regard.data.store import Store
from regard.decoding.text_config import TextConfig
from regard.errors import ConfigError
from regard.pipelines.text_search import Translation
from regard.pipelines.translator import Translator
from toys import write_model_folder

LINES = ["a b c d e", "f g", "h i j a b"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, reversal_store: Store) -> dict[str, Path]:
    """Folders of models without training."""
    new, kind = tmp_path_factory.mktemp, "nonautoregressive"
    return {
        "autoregressive": write_model_folder(new("model"), reversal_store),
        "ctc": write_model_folder(new("ctc"), reversal_store, kind=kind, length_prediction="ctc"),
    }


@pytest.fixture(scope="module")
def translator(folders: dict[str, Path]) -> Translator:
    return regard.load(folders["autoregressive"], device="cpu")


def expected_ranking(
    metric: BLEU | CHRF, texts: Sequence[str], weights: Sequence[float]
) -> dict[str, float]:
    """The expected utility of each distinct text, by sacrebleu's sentence scores."""
    pairs = [*zip(texts, weights, strict=True)]
    return {
        text: sum(weight * metric.sentence_score(text, [other]).score for other, weight in pairs)
        for text in texts
    }


def ranked(translation: Translation) -> list[tuple[str, float]]:
    """All hypotheses of a translation, best first."""
    others = [(other.text, other.score) for other in translation.alternatives]
    return [(translation.text, translation.score), *others]


@pytest.mark.parametrize("utility", ["chrf", "bleu"])
def test_samples_are_ranked_by_their_mean_utility(translator: Translator, utility: Any) -> None:
    metric = CHRF() if utility == "chrf" else BLEU(effective_order=True, force=True)
    settings: Any = {"max_extra": 4, "temperature": 0.7, "epsilon_cutoff": 0.01, "seed": 3}
    samples = translator.translate(LINES, sample=True, num_hypotheses=30, **settings)
    best = translator.translate(LINES, mbr=utility, mbr_samples=30, num_hypotheses=8, **settings)
    for candidates, translation in zip(map(ranked, samples), best, strict=True):
        texts = [text for text, _ in candidates]
        utilities = expected_ranking(metric, texts, [1 / 30] * 30)
        assert len(utilities) > 8
        scores = [score for _, score in ranked(translation)]
        assert scores == pytest.approx(sorted(utilities.values(), reverse=True)[:8], rel=1e-9)
        for text, score in ranked(translation):
            assert score == pytest.approx(utilities[text], rel=1e-9)


@pytest.mark.parametrize("backend", ["torch", "ctranslate2"])
def test_an_nbest_list_is_weighted_by_its_probabilities(
    folders: dict[str, Path], backend: str
) -> None:
    model = regard.load(folders["autoregressive"], device="cpu", backend=backend)
    settings: Any = {"beam_size": 6, "length_penalty": 0.0, "retry": False}
    nbests = model.translate(LINES, num_hypotheses=6, **settings)
    best = model.translate(LINES, mbr="chrf", **settings)
    for candidates, translation in zip(map(ranked, nbests), best, strict=True):
        log_probs = [score for _, score in candidates]
        total = sum(map(math.exp, log_probs))
        weights = [math.exp(log_prob) / total for log_prob in log_probs]
        utilities = expected_ranking(CHRF(), [text for text, _ in candidates], weights)
        assert translation.score == pytest.approx(max(utilities.values()), rel=1e-4)
        assert utilities[translation.text] == pytest.approx(translation.score, rel=1e-4)


def test_candidates_of_a_nonautoregressive_model(folders: dict[str, Path]) -> None:
    model = regard.load(folders["ctc"], device="cpu")
    [best] = model.translate(LINES[:1], mbr="chrf", candidates=8, num_hypotheses=8)
    [nbest] = model.translate(LINES[:1], candidates=8, num_hypotheses=8)
    assert len(ranked(best)) > 1
    assert {text for text, _ in ranked(best)} == {text for text, _ in ranked(nbest)}


def test_results_do_not_depend_on_the_batch(translator: Translator) -> None:
    settings: Any = {"mbr": "bleu", "mbr_samples": 10, "max_extra": 4}
    together = translator.translate(LINES, **settings)
    alone = [translator.translate([line], batch_size=1, **settings)[0] for line in LINES]
    assert [part.text for part in together] == [part.text for part in alone]


def test_lines_of_several_sentences_have_the_mean_of_their_utilities(
    translator: Translator,
) -> None:
    settings: Any = {"mbr": "chrf", "mbr_samples": 10, "max_extra": 4}
    first, second, both = translator.translate(["a b.", "C d.", "a b. C d."], **settings)
    assert both.text == f"{first.text} {second.text}"
    assert min(first.score, second.score) <= both.score <= max(first.score, second.score)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mbr": "ter"}, "mbr is .ter., but must be"),
        ({"mbr_samples": 10}, "mbr_samples has no effect without mbr"),
        ({"mbr": "chrf", "mbr_samples": 1}, "leaves no choice"),
        ({"mbr": "chrf", "beam_size": 1}, "no candidates to choose from in greedy search"),
        ({"mbr": "chrf", "sample": True}, "Use --mbr-samples 100 instead of --sample"),
        ({"mbr": "chrf", "mbr_samples": 9, "beam_size": 4}, "beam_size .* has no effect"),
        ({"mbr": "chrf", "mbr_samples": 9, "num_hypotheses": 10}, "only 9 candidates"),
        ({"mbr": "chrf", "temperature": 0.5}, "temperature .* has no effect in beam search"),
        ({"mbr": "comet"}, "mbr=comet requires comet_checkpoint"),
        ({"mbr": "chrf", "comet_checkpoint": "a.ckpt"}, "no effect without mbr=comet"),
    ],
)
def test_settings_that_contradict_each_other(
    translator: Translator, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        translator.translate(LINES, **settings)


def test_a_nonautoregressive_model_cannot_sample(folders: dict[str, Path]) -> None:
    model = regard.load(folders["ctc"], device="cpu")
    with pytest.raises(ConfigError, match=r"sample .* has no effect in CTC decoding"):
        model.translate(LINES, mbr="chrf", mbr_samples=5)
    with pytest.raises(ConfigError, match="no candidates to choose from in CTC decoding"):
        model.translate(LINES, mbr="chrf")


def test_bleu_uses_the_tokenizer_of_the_only_target_language(translator: Translator) -> None:
    directions = [DirectionStatistics(source, "zh", 1, 9, 0.0) for source in ("de", "en")]
    directions.append(DirectionStatistics("zh", "en", 1, 9, 0.0))
    text = replace(
        translator.text,
        languages={"source": None, "target": None},
        directions=tuple(directions),
    )
    texts = ["我喜欢猫", "我喜欢狗", "我有猫"]
    for source, language in (("en", "zh"), ("zh", "en"), (None, None)):
        utility = make_utility(TextConfig(mbr="bleu", source_lang=source), text, None)
        assert np.allclose(utility("", texts), make_bleu(language)("", texts))
    assert not np.allclose(make_bleu("zh")("", texts), make_bleu("en")("", texts))
