"""Confidences of words: which tokens belong to which words, and words of changed texts."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.calibration import PlattScaling
from regard.decoding.text_config import TextConfig
from regard.pipelines.confidence import (
    ConfidenceEstimator,
    WordConfidence,
    confidence_estimator,
    realigned_words,
    text_confidence,
    to_single_line,
    token_ends,
    word_log_probs,
)
from regard.text.words import word_spans
from text.toy_tokenizers import KINDS, texts, tokenizer


def reference_word_log_probs(
    spans: Sequence[tuple[int, int]], ends: Sequence[int], log_probs: Sequence[float]
) -> list[float]:
    """By the words of each character of each token; a token without any has those of the next."""
    starts = [0, *ends][: len(ends)]
    words = [
        {w for w, (first, last) in enumerate(spans) for i in range(start, end) if first <= i < last}
        for start, end in zip(starts, ends, strict=True)
    ]
    following = {len(spans) - 1}
    for number in reversed(range(len(words))):
        words[number] = following = words[number] or following
    return [
        math.fsum(p for p, its_words in zip(log_probs, words, strict=True) if w in its_words)
        for w in range(len(spans))
    ]


@settings(deadline=None)
@given(texts, st.sampled_from(KINDS), st.randoms(use_true_random=False))
def test_every_token_counts_in_its_words(text: str, kind: str, draw: random.Random) -> None:
    tokens = tokenizer(kind=kind).encode(text)
    decoded = to_single_line(tokenizer(kind=kind).decode(tokens))
    ends = token_ends(tokens, decoded, tokenizer(kind=kind))
    assert len(ends) == len(tokens)
    assert ends == sorted(ends)
    assert not ends or ends[-1] == len(decoded)
    log_probs = [-1 - draw.random() for _ in tokens]
    spans = word_spans(decoded)
    totals = word_log_probs(spans, ends, log_probs)
    assert totals == pytest.approx(reference_word_log_probs(spans, ends, log_probs))
    assert all(total < 0 for total in totals)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=6),
    st.lists(st.integers(0, 4), max_size=12),
    st.integers(0, 10**6),
)
def test_tokens_of_any_extent(gaps: list[tuple[int, int]], sizes: list[int], seed: int) -> None:
    """Tokens that span words, parts of characters and spaces."""
    spans, position = [], 0
    for gap, size in gaps:
        spans.append((position + gap, position + gap + size))
        position += gap + size
    ends = [sum(sizes[: n + 1]) for n in range(len(sizes))]
    log_probs = [-((seed * (n + 7)) % 97) / 97 for n in range(len(sizes))]
    if not spans:
        assert word_log_probs(spans, ends, log_probs) == []
        return
    expected = reference_word_log_probs(spans, ends, log_probs)
    assert word_log_probs(spans, ends, log_probs) == pytest.approx(expected)


def test_word_probability_is_the_product_of_its_tokens() -> None:
    tokens = tokenizer(kind="char").encode("the dog")
    assert len(tokens) in (7, 8)  # with or without a leading space
    log_probs = [*[-0.1] * len(tokens), -5.0]  # the last is that of EOS
    estimator = ConfidenceEstimator(tokenizer(kind="char"), PlattScaling(), 0)
    words = estimator.words(tokens, log_probs, "the dog", start=10)
    assert [(word.text, word.start, word.end) for word in words] == [
        ("the", 10, 13),
        ("dog", 14, 17),
    ]
    probabilities = [word.confidence for word in words]
    assert math.prod(probabilities) == pytest.approx(math.exp(-0.1 * len(tokens)))
    assert text_confidence(words) == pytest.approx(sum(probabilities) / 2)
    assert text_confidence([]) is None
    scaled = ConfidenceEstimator(tokenizer(kind="char"), PlattScaling(2.0, -1.0), 0)
    [first, _] = scaled.words(tokens, log_probs, "the dog")
    odds = probabilities[0] / (1 - probabilities[0])
    assert first.confidence == pytest.approx(1 / (1 + math.exp(1) / math.sqrt(odds)))


def word_list(text: str, confidences: Sequence[float]) -> list[WordConfidence]:
    spans = word_spans(text)
    return [
        WordConfidence(text[start:end], confidence, start, end)
        for (start, end), confidence in zip(spans, confidences, strict=True)
    ]


def test_words_of_a_changed_text() -> None:
    words = word_list("Ein Hund X läuft", [0.9, 0.8, 0.4, 0.7])
    assert realigned_words(words, "Ein Hund X läuft") == words
    changed = realigned_words(words, "<b>Ein</b> Hund www.x.de läuft")
    # Inserted words have no confidence, a word that replaces others has their lowest.
    expected = [("Ein", 0.9), ("Hund", 0.8), ("läuft", 0.7)]
    by_text = [(word.text, word.confidence) for word in changed]
    assert [pair for pair in by_text if pair in expected] == expected
    assert {confidence for text, confidence in by_text if (text, confidence) not in expected} == {
        0.4
    }
    assert "b" not in [word.text for word in changed]


@given(texts, texts)
def test_words_of_any_changed_text_are_in_it(text: str, changed: str) -> None:
    words = word_list(text, [0.5] * len(word_spans(text)))
    realigned = realigned_words(words, changed)
    assert all(changed[word.start : word.end] == word.text for word in realigned)
    spans = word_spans(changed)
    assert [(word.start, word.end) for word in realigned] == [
        span for span in spans if span in {(word.start, word.end) for word in realigned}
    ]
    if text == changed:
        assert realigned == words


def test_notice_without_calibration() -> None:
    notices: list[str] = []
    arguments = TextConfig(min_confidence=0.3), [Path("runs/a")], tokenizer(kind="char")
    estimator = confidence_estimator(*arguments, lambda: None, notices.append)
    assert (estimator.scaling, estimator.minimum) == (PlattScaling(), 0.3)
    [notice] = notices
    assert "runs/a has no calibration.json" in notice
    assert "regard calibrate" in notice
