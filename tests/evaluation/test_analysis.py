"""Tests of length buckets, worst sentences and repetition rates."""

from __future__ import annotations

from itertools import pairwise

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from evaluation.translations import corrupt, references
from regard.evaluation.analysis import (
    bleu_by_length,
    length_buckets,
    repetition_rate,
    sentence_scores,
    worst_sentences,
)
from regard.evaluation.metrics import MetricConfig

REFERENCES = references()
HYPOTHESES = corrupt(REFERENCES, 0.3)


@given(st.lists(st.integers(0, 60), min_size=1, max_size=200), st.integers(1, 8))
def test_buckets_are_a_partition_from_short_to_long(lengths: list[int], parts: int) -> None:
    buckets = length_buckets(lengths, parts)
    assert 1 <= len(buckets) <= parts
    assert all(buckets)
    assert sorted(index for indices in buckets for index in indices) == list(range(len(lengths)))
    bucket_lengths = [[lengths[index] for index in indices] for indices in buckets]
    assert all(max(a) < min(b) for a, b in pairwise(bucket_lengths))


def test_buckets_of_different_lengths_are_of_equal_size() -> None:
    assert [len(indices) for indices in length_buckets(list(range(100)), 5)] == [20] * 5


def test_single_bucket_has_corpus_bleu() -> None:
    [bucket] = bleu_by_length(HYPOTHESES, [REFERENCES], MetricConfig(), parts=1)
    assert bucket.bleu == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES], force=True).score
    assert (bucket.shortest, bucket.longest, bucket.sentences) == (1, 20, 80)


def test_bucket_has_bleu_of_its_sentences() -> None:
    buckets = bleu_by_length(HYPOTHESES, [REFERENCES], MetricConfig())
    assert sum(bucket.sentences for bucket in buckets) == 80
    last = buckets[-1]
    selected = [n for n, line in enumerate(REFERENCES) if len(line.split()) >= last.shortest]
    expected = sacrebleu.corpus_bleu(
        [HYPOTHESES[n] for n in selected], [[REFERENCES[n] for n in selected]], force=True
    )
    assert last.sentences == len(selected)
    assert last.bleu == expected.score


def test_length_is_counted_after_tokenization() -> None:
    texts = ["Ein Hund, ja!"]
    assert bleu_by_length(texts, [texts], MetricConfig())[0].longest == 5
    assert bleu_by_length(texts, [texts], MetricConfig(tokenize="none"))[0].longest == 3
    assert bleu_by_length(texts, [texts], MetricConfig(tokenize="char"))[0].longest == 11


def test_bleu_of_perfect_short_sentences_is_100() -> None:
    assert bleu_by_length(["a dog"], [["a dog"]], MetricConfig())[0].bleu == pytest.approx(100)


def test_sentence_scores_match_sacrebleu() -> None:
    expected = [
        sacrebleu.sentence_chrf(f, [r]).score for f, r in zip(HYPOTHESES, REFERENCES, strict=True)
    ]
    assert sentence_scores(HYPOTHESES, [REFERENCES], MetricConfig()) == expected
    assert sentence_scores(["DOG"], [["dog"]], MetricConfig()) == [0]
    assert sentence_scores(["DOG", ""], [["dog", " "]], MetricConfig(lowercase=True)) == [100, 100]


def test_worst_sentences_are_sorted_and_numbered() -> None:
    sources = [f"source {number}" for number in range(80)]
    sentences = worst_sentences(HYPOTHESES, [REFERENCES], MetricConfig(), count=10, sources=sources)
    scores = sentence_scores(HYPOTHESES, [REFERENCES], MetricConfig())
    assert [sentence.score for sentence in sentences] == sorted(scores)[:10]
    for sentence in sentences:
        index = sentence.line - 1
        assert sentence.score == scores[index]
        assert sentence.source == f"source {index}"
        assert (sentence.translation, sentence.reference) == (HYPOTHESES[index], REFERENCES[index])


def test_worst_sentences_of_a_small_test_set() -> None:
    sentences = worst_sentences(["b", "a"], [["b", "b"]], MetricConfig(), count=5)
    assert [(sentence.line, sentence.source) for sentence in sentences] == [(2, None), (1, None)]


def test_repetition_rate_is_the_percentage_of_repeated_words() -> None:
    assert repetition_rate(["a man man runs", "a a a"]) == pytest.approx(100 * 3 / 7)
    assert repetition_rate(["a b a"]) == repetition_rate([""]) == 0
