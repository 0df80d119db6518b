"""Every sentence is in one bucket, and the worst are the worst."""

from __future__ import annotations

from itertools import pairwise

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from evaluation.translations import damaged, references
from regard.evaluation.analysis import buckets, by_length, repeated_words, sentence_scores, worst
from regard.evaluation.metrics import Counting

RIGHT = references()
FOUND = damaged(RIGHT, 0.3)


@given(st.lists(st.integers(0, 60), min_size=1, max_size=200), st.integers(1, 8))
def test_buckets_are_a_partition_from_short_to_long(lengths: list[int], parts: int) -> None:
    found = buckets(lengths, parts)
    assert 1 <= len(found) <= parts
    assert all(found)
    assert sorted(place for places in found for place in places) == list(range(len(lengths)))
    inside = [[lengths[place] for place in places] for places in found]
    assert all(max(a) < min(b) for a, b in pairwise(inside))


def test_buckets_of_different_lengths_are_of_equal_size() -> None:
    assert [len(places) for places in buckets(list(range(100)), 5)] == [20] * 5


def test_a_single_bucket_is_the_corpus() -> None:
    [bucket] = by_length(FOUND, [RIGHT], Counting(), parts=1)
    assert bucket.bleu == sacrebleu.corpus_bleu(FOUND, [RIGHT], force=True).score
    assert (bucket.shortest, bucket.longest, bucket.sentences) == (1, 20, 80)


def test_each_bucket_is_the_bleu_of_its_sentences() -> None:
    found = by_length(FOUND, [RIGHT], Counting())
    assert sum(bucket.sentences for bucket in found) == 80
    last = found[-1]
    inside = [n for n, line in enumerate(RIGHT) if len(line.split()) >= last.shortest]
    expected = sacrebleu.corpus_bleu(
        [FOUND[n] for n in inside], [[RIGHT[n] for n in inside]], force=True
    )
    assert last.sentences == len(inside)
    assert last.bleu == expected.score


def test_words_are_those_of_the_tokenizer() -> None:
    texts = ["Ein Hund, ja!"]
    assert by_length(texts, [texts], Counting())[0].longest == 5
    assert by_length(texts, [texts], Counting(tokenize="none"))[0].longest == 3
    assert by_length(texts, [texts], Counting(tokenize="char"))[0].longest == 11


def test_short_sentences_can_be_perfect() -> None:
    assert by_length(["a dog"], [["a dog"]], Counting())[0].bleu == pytest.approx(100)


def test_sentence_scores_are_sacrebleus() -> None:
    expected = [sacrebleu.sentence_chrf(f, [r]).score for f, r in zip(FOUND, RIGHT, strict=True)]
    assert sentence_scores(FOUND, [RIGHT], Counting()) == expected
    assert sentence_scores(["DOG"], [["dog"]], Counting()) == [0]
    assert sentence_scores(["DOG", ""], [["dog", " "]], Counting(lowercase=True)) == [100, 100]


def test_the_worst_come_first_with_their_lines() -> None:
    sources = [f"source {number}" for number in range(80)]
    found = worst(FOUND, [RIGHT], Counting(), count=10, sources=sources)
    scores = sentence_scores(FOUND, [RIGHT], Counting())
    assert [sentence.score for sentence in found] == sorted(scores)[:10]
    for sentence in found:
        place = sentence.line - 1
        assert sentence.score == scores[place]
        assert sentence.source == f"source {place}"
        assert (sentence.translation, sentence.reference) == (FOUND[place], RIGHT[place])


def test_the_worst_of_few_are_all() -> None:
    found = worst(["b", "a"], [["b", "b"]], Counting(), count=5)
    assert [(sentence.line, sentence.source) for sentence in found] == [(2, None), (1, None)]


def test_words_that_are_said_twice_are_counted() -> None:
    assert repeated_words(["a man man runs", "a a a"]) == pytest.approx(100 * 3 / 7)
    assert repeated_words(["a b a"]) == repeated_words([""]) == 0
