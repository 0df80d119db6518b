"""Drawn cuts: the same text, by the unigram model's own probabilities."""

from __future__ import annotations

import math
from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.text.recut import Recutter
from text.learned import texts, tokenizer

TEXT = "the dog sleeps and runs"


def recut(text: str, seed: int, *, candidates: int = 16, temperature: float = 20.0) -> list[int]:
    found = Recutter(tokenizer(), candidates=candidates, temperature=temperature)
    return found.recut(tokenizer().encode(text), Random(seed))


@settings(deadline=None)
@given(text=texts, seed=st.integers(0, 2**32))
def test_a_drawn_cut_has_the_same_text(text: str, seed: int) -> None:
    ids = tokenizer().encode(text)
    assert tokenizer().decode(recut(text, seed)) == tokenizer().decode(ids)


@settings(deadline=None)
@given(text=texts)
def test_one_candidate_or_no_temperature_is_the_best_cut(text: str) -> None:
    ids = tokenizer().encode(text)
    assert recut(text, 3, candidates=1) == ids
    assert recut(text, 3, temperature=0.001) == ids


def test_the_same_seed_draws_the_same_cut_and_others_draw_others() -> None:
    assert recut(TEXT, 5) == recut(TEXT, 5)
    assert len({tuple(recut(TEXT, seed)) for seed in range(50)}) > 10


@pytest.mark.parametrize("temperature", [1.0, 5.0])
def test_cuts_are_drawn_by_their_probabilities(temperature: float) -> None:
    found = tokenizer().best_cuts("sleeps", 4)
    weights = [math.exp(score / temperature) for _, score in found]
    recutter = Recutter(tokenizer(), candidates=4, temperature=temperature)
    ids, draw = tokenizer().encode("sleeps"), Random(1)
    counts = Counter(tuple(recutter.recut(ids, draw)) for _ in range(4000))
    for (cut, _), weight in zip(found, weights, strict=True):
        assert counts[tuple(cut)] / 4000 == pytest.approx(weight / sum(weights), abs=0.03)


def test_words_are_cut_independently() -> None:
    """More cuts of a sentence are seen than its `candidates` best ones."""
    assert len({tuple(recut(TEXT, seed, candidates=2)) for seed in range(300)}) > 16
