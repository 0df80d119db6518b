"""Utilities of all pairs equal sacrebleu's sentence scores."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from regard.backends import utilities
from regard.backends.utilities import chrf, make_bleu, ngram_matches
from regard.errors import ConfigError

SENTENCES = [
    "",
    " ",
    "a",
    "A dog, a cat.",
    "A dog and a cat are a dog and a cat.",
    "aaaaaaaa aaaa aa",
    "The quick (brown) fox's 3.5 jumps - over it!",
    "The quick brown fox jumps over the lazy dog",
    "Zwölf Boxkämpfer 🥊 jagen Viktor",
    "他们 在 打 篮球 。",
]
texts = st.lists(st.text("ab .ö", max_size=12), min_size=1, max_size=6)


def all_pairs(metric: BLEU | CHRF, sentences: Sequence[str]) -> list[list[float]]:
    return [
        [metric.sentence_score(text, [reference]).score for reference in sentences]
        for text in sentences
    ]


@settings(max_examples=60, deadline=None)
@given(texts)
def test_chrf_equals_sacrebleu(sentences: list[str]) -> None:
    for lines in (sentences, SENTENCES):
        assert np.allclose(chrf("", lines), all_pairs(CHRF(), lines), rtol=1e-12, atol=0)


@settings(max_examples=60, deadline=None)
@given(texts)
def test_bleu_equals_sacrebleu(sentences: list[str]) -> None:
    metric = BLEU(effective_order=True, force=True)
    for lines in (sentences, SENTENCES):
        expected = all_pairs(metric, lines)
        assert np.allclose(make_bleu("de")("", lines), expected, rtol=1e-12, atol=0)


def test_bleu_of_chinese_is_tokenized_like_sacrebleu() -> None:
    lines = ["他们在打篮球。", "他在打网球。", "a 打 b"]
    metric = BLEU(trg_lang="zh", effective_order=True)
    for language in ("zh", "zh-CN"):
        assert np.allclose(make_bleu(language)("", lines), all_pairs(metric, lines), rtol=1e-12)
    assert not np.allclose(make_bleu(None)("", lines), all_pairs(metric, lines))


def test_languages_whose_tokenizer_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **keywords: object) -> None:
        raise RuntimeError("MeCab\nis not installed.")

    monkeypatch.setattr(BLEU, "__init__", fail)
    with pytest.raises(ConfigError, match=r"for 'ja' is not available: MeCab is not installed\."):
        make_bleu("ja")


def test_long_ngrams_of_a_large_vocabulary() -> None:
    """Numbers of n-grams do not overflow: each row has thousands of distinct tokens."""
    draw = np.random.default_rng(1)
    rows = [draw.integers(0, 2**31, 3000).tolist() for _ in range(2)]
    rows.append([*rows[0][:1000], *rows[1][:1000]])
    for order, (matches, counts) in enumerate(ngram_matches(rows, 6), 1):
        grams = [Counter(zip(*(row[n:] for n in range(order)), strict=False)) for row in rows]
        assert counts.tolist() == [sum(gram.values()) for gram in grams]
        expected = [[sum((row & column).values()) for column in grams] for row in grams]
        assert matches.tolist() == expected


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(2)
    rows = [draw.integers(0, 20_000, 400).tolist() for _ in range(60)]
    expected = [matches.tolist() for matches, _ in ngram_matches(rows, 2)]
    assert sum(map(sum, expected[1])) > 60 * 399  # pairs of tokens that several rows share
    monkeypatch.setattr(utilities, "_MAX_CELLS", 10_000)
    tracemalloc.start()
    assert [matches.tolist() for matches, _ in ngram_matches(rows, 2)] == expected
    assert tracemalloc.get_traced_memory()[1] < 4e6  # a matrix of all n-grams would be 8 MB
    tracemalloc.stop()
