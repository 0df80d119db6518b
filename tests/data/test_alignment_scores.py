"""Alignment scores: words, and scores of pairs that belong together or do not."""

from __future__ import annotations

import random

import numpy as np
import pytest

from data.corpora import some_pairs
from regard.data.aligner import BidirectionalAligner
from regard.data.alignment_input import segment_into_words
from regard.data.alignment_scores import WordRows, alignment_scores, split_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A dog, the DOG's 2nd!", ["a", "dog", "the", "dog", "s", "2nd"]),
        ("Straße_ä", ["straße", "ä"]),
        ("我爱 Tom2", ["我", "爱", "tom2"]),
        ("犬が走る。", ["犬", "が", "走", "る"]),
        ("...", ["..."]),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert split_words(text) == words


def test_rows_have_one_id_per_word() -> None:
    lines = WordRows()
    for line in ("a b a", "...", "c A"):
        lines.append(line)
    assert [row.tolist() for row in (lines.rows()[i] for i in range(3))] == [[0, 1, 0], [2], [3, 0]]


def test_scores_are_the_lower_mean_of_both_directions() -> None:
    pairs = some_pairs()
    source, target = (segment_into_words(side).rows for side in zip(*pairs, strict=True))
    aligner = BidirectionalAligner.train(source, target)
    forward = aligner.forward.mean_log_probs(source, target)
    backward = aligner.backward.mean_log_probs(target, source)
    expected = [min(pair) for pair in zip(forward, backward, strict=True)]
    assert alignment_scores(pairs) == pytest.approx(expected)


def test_misaligned_and_truncated_pairs_have_the_lowest_scores() -> None:
    pairs = some_pairs(500)
    rng = random.Random(1)
    for index in range(20):
        source, target = pairs[index]
        _, other = pairs[rng.randrange(20, 500)]
        words = source.split()
        half = " ".join(words[: len(words) // 2])
        pairs[index] = (source, other) if index % 2 else (half, target)
    scores = alignment_scores(pairs)
    assert (scores < 1e-9).all()
    assert {*np.argsort(scores)[:10].tolist()} <= {*range(20)}
    assert np.median(scores[:20]) < np.quantile(scores[20:], 0.05)
