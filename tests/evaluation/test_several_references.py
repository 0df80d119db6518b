"""Metrics with several references match sacrebleu."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest

from evaluation.translations import WORDS, corrupt, references
from regard.evaluation.analysis import bleu_by_length, sentence_scores, worst_sentences
from regard.evaluation.metrics import MetricConfig, References, case_is_lost, evaluate
from regard.evaluation.significance import compare

LINES = st.lists(st.sampled_from([*WORDS, "The", "DOG", ""]), max_size=8).map(" ".join)


def make_references(count: int, *, seed: int = 3) -> References:
    """Return several references with random differences, some lines of them empty."""
    draw = random.Random(seed)
    first = references(40)
    texts = [first]
    for number in range(1, count):
        lines = [line.capitalize() for line in corrupt(first, 0.3, seed=number + seed)]
        lines[draw.randrange(40)] = ""
        texts.append(lines)
    return texts


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(1, 4), st.integers(1, 6), st.booleans())
def test_metrics_match_sacrebleu(
    data: st.DataObject, count: int, lines: int, lowercase: bool
) -> None:
    text = st.lists(LINES, min_size=lines, max_size=lines)
    hypotheses = data.draw(text)
    all_references = [data.draw(text) for _ in range(count)]
    metrics: list[Metric] = [BLEU(lowercase=lowercase), CHRF(lowercase=lowercase), TER()]
    results = evaluate(hypotheses, all_references, MetricConfig(lowercase))
    for result, metric in zip(results, metrics, strict=True):
        assert result.value == metric.corpus_score(hypotheses, all_references).score
        assert result.signature == str(metric.get_signature())
        assert f"nrefs:{count}|" in result.signature


@pytest.mark.parametrize("count", [1, 2, 3])
def test_buckets_partition_the_lines_and_use_all_references(count: int) -> None:
    all_references = make_references(count)
    hypotheses = corrupt(all_references[0], 0.2, seed=9)
    [whole] = bleu_by_length(hypotheses, all_references, MetricConfig(), parts=1)
    assert whole.bleu == pytest.approx(
        BLEU(force=True).corpus_score(hypotheses, all_references).score
    )
    parts = bleu_by_length(hypotheses, all_references, MetricConfig())
    selected = [
        n for n, line in enumerate(all_references[0]) if len(line.split()) >= parts[-1].shortest
    ]
    expected = BLEU(force=True).corpus_score(
        [hypotheses[n] for n in selected],
        [[lines[n] for n in selected] for lines in all_references],
    )
    assert parts[-1].bleu == pytest.approx(expected.score)
    assert sum(part.sentences for part in parts) == 40


@pytest.mark.parametrize("count", [1, 2, 3])
def test_sentence_scores_use_all_references(count: int) -> None:
    all_references = make_references(count)
    hypotheses = corrupt(all_references[0], 0.2, seed=9)
    hypotheses[3] = ""
    expected = [
        CHRF().sentence_score(line, list(lines)).score
        for line, *lines in zip(hypotheses, *all_references, strict=True)
    ]
    assert sentence_scores(hypotheses, all_references, MetricConfig()) == expected
    [sentence] = worst_sentences(hypotheses, all_references, MetricConfig(), count=1)
    assert sentence.score == min(expected)
    assert sentence.references == [lines[sentence.line - 1] for lines in all_references]
    assert sentence.reference == sentence.references[0]


def test_significance_matches_sacrebleu() -> None:
    all_references = make_references(3)
    good, bad = corrupt(all_references[0], 0.1, seed=5), corrupt(all_references[1], 0.3, seed=6)
    metrics: dict[str, Metric] = {"BLEU": BLEU(), "chrF": CHRF(), "TER": TER()}
    _, expected = PairedTest(
        [("baseline", bad), ("system", good)],
        metrics,
        all_references,
        test_type="bs",
        n_samples=100,
    )()
    comparisons = {
        comparison.name: comparison
        for comparison in compare(good, bad, all_references, MetricConfig(), resamples=100)
    }
    assert comparisons.keys() == expected.keys() - {"System"}
    for name, comparison in comparisons.items():
        baseline, system = expected[name]
        assert not isinstance(system, str)
        assert not isinstance(baseline, str)
        assert (comparison.system.value, comparison.p_value) == (system.score, system.p_value)
        assert comparison.against.value == baseline.score
        assert comparison.against.margin == baseline.ci
        assert "nrefs:3" in comparison.signature


def test_case_is_lost_if_only_references_are_cased() -> None:
    cased = ["Ein Hund", "läuft"]
    lower = [line.lower() for line in cased]
    assert case_is_lost(lower, [cased])
    assert case_is_lost(lower, [lower, cased])
    assert not case_is_lost(cased, [cased])
    assert not case_is_lost(["ein Hund", "läuft"], [cased])
    assert not case_is_lost(lower, [lower])
    assert not case_is_lost(["一只狗", "跑"], [["NATO", "跑"]])
