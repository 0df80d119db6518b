"""Several references are counted as sacrebleu counts them."""

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

from evaluation.translations import WORDS, damaged, references
from regard.evaluation.analysis import by_length, sentence_scores, worst
from regard.evaluation.metrics import Counting, References, case_is_lost, evaluate
from regard.evaluation.significance import compare

LINES = st.lists(st.sampled_from([*WORDS, "The", "DOG", ""]), max_size=8).map(" ".join)


def others(count: int, *, seed: int = 3) -> References:
    """References that say the same in other words, some of them empty."""
    draw = random.Random(seed)
    first = references(40)
    found = [first]
    for number in range(1, count):
        lines = [line.capitalize() for line in damaged(first, 0.3, seed=number + seed)]
        lines[draw.randrange(40)] = ""
        found.append(lines)
    return found


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(1, 4), st.integers(1, 6), st.booleans())
def test_figures_are_sacrebleus(
    data: st.DataObject, count: int, lines: int, lowercase: bool
) -> None:
    text = st.lists(LINES, min_size=lines, max_size=lines)
    hypotheses = data.draw(text)
    right = [data.draw(text) for _ in range(count)]
    metrics: list[Metric] = [BLEU(lowercase=lowercase), CHRF(lowercase=lowercase), TER()]
    found = evaluate(hypotheses, right, Counting(lowercase))
    for result, metric in zip(found, metrics, strict=True):
        assert result.value == metric.corpus_score(hypotheses, right).score
        assert result.signature == str(metric.get_signature())
        assert f"nrefs:{count}|" in result.signature


@pytest.mark.parametrize("count", [1, 2, 3])
def test_buckets_together_hold_every_line_once_and_count_all_references(count: int) -> None:
    right = others(count)
    found = damaged(right[0], 0.2, seed=9)
    [whole] = by_length(found, right, Counting(), parts=1)
    assert whole.bleu == pytest.approx(BLEU(force=True).corpus_score(found, right).score)
    parts = by_length(found, right, Counting())
    inside = [n for n, line in enumerate(right[0]) if len(line.split()) >= parts[-1].shortest]
    expected = BLEU(force=True).corpus_score(
        [found[n] for n in inside], [[lines[n] for n in inside] for lines in right]
    )
    assert parts[-1].bleu == pytest.approx(expected.score)
    assert sum(part.sentences for part in parts) == 40


@pytest.mark.parametrize("count", [1, 2, 3])
def test_sentences_are_scored_against_all_references(count: int) -> None:
    right = others(count)
    found = damaged(right[0], 0.2, seed=9)
    found[3] = ""
    expected = [
        CHRF().sentence_score(line, list(lines)).score
        for line, *lines in zip(found, *right, strict=True)
    ]
    assert sentence_scores(found, right, Counting()) == expected
    [sentence] = worst(found, right, Counting(), count=1)
    assert sentence.score == min(expected)
    assert sentence.references == [lines[sentence.line - 1] for lines in right]
    assert sentence.reference == sentence.references[0]


def test_significance_is_sacrebleus() -> None:
    right = others(3)
    good, bad = damaged(right[0], 0.1, seed=5), damaged(right[1], 0.3, seed=6)
    metrics: dict[str, Metric] = {"BLEU": BLEU(), "chrF": CHRF(), "TER": TER()}
    _, expected = PairedTest(
        [("baseline", bad), ("system", good)], metrics, right, test_type="bs", n_samples=100
    )()
    found = {one.name: one for one in compare(good, bad, right, Counting(), resamples=100)}
    assert found.keys() == expected.keys() - {"System"}
    for name, one in found.items():
        baseline, system = expected[name]
        assert not isinstance(system, str)
        assert not isinstance(baseline, str)
        assert (one.system.value, one.p_value) == (system.score, system.p_value)
        assert (one.against.value, one.against.margin) == (baseline.score, baseline.ci)
        assert "nrefs:3" in one.signature


def test_case_is_lost_where_only_references_have_it() -> None:
    cased = ["Ein Hund", "läuft"]
    lower = [line.lower() for line in cased]
    assert case_is_lost(lower, [cased])
    assert case_is_lost(lower, [lower, cased])
    assert not case_is_lost(cased, [cased])
    assert not case_is_lost(["ein Hund", "läuft"], [cased])
    assert not case_is_lost(lower, [lower])
    assert not case_is_lost(["一只狗", "跑"], [["NATO", "跑"]])
