"""Subword regularization: sampled segmentations follow the unigram probabilities."""

from __future__ import annotations

import math
from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.text.subword_sampling import SubwordSampler
from text.toy_tokenizers import texts, tokenizer

TEXT = "the dog sleeps and runs"


def sample_ids(
    text: str, seed: int, *, candidates: int = 16, temperature: float = 20.0
) -> list[int]:
    sampler = SubwordSampler(tokenizer(), candidates=candidates, temperature=temperature)
    return sampler.sample(tokenizer().encode(text), Random(seed))


@settings(deadline=None)
@given(text=texts, seed=st.integers(0, 2**32))
def test_sampled_segmentation_decodes_to_the_same_text(text: str, seed: int) -> None:
    ids = tokenizer().encode(text)
    assert tokenizer().decode(sample_ids(text, seed)) == tokenizer().decode(ids)


@settings(deadline=None)
@given(text=texts)
def test_one_candidate_or_zero_temperature_gives_the_best_segmentation(text: str) -> None:
    ids = tokenizer().encode(text)
    assert sample_ids(text, 3, candidates=1) == ids
    assert sample_ids(text, 3, temperature=0.001) == ids


def test_sampling_depends_on_the_seed_only() -> None:
    assert sample_ids(TEXT, 5) == sample_ids(TEXT, 5)
    assert len({tuple(sample_ids(TEXT, seed)) for seed in range(50)}) > 10


@pytest.mark.parametrize("temperature", [1.0, 5.0])
def test_segmentations_are_sampled_by_their_probabilities(temperature: float) -> None:
    nbest = tokenizer().nbest_encode("sleeps", 4)
    weights = [math.exp(score / temperature) for _, score in nbest]
    sampler = SubwordSampler(tokenizer(), candidates=4, temperature=temperature)
    ids, rng = tokenizer().encode("sleeps"), Random(1)
    counts = Counter(tuple(sampler.sample(ids, rng)) for _ in range(4000))
    for (segmentation, _), weight in zip(nbest, weights, strict=True):
        assert counts[tuple(segmentation)] / 4000 == pytest.approx(weight / sum(weights), abs=0.03)


def test_words_are_sampled_independently() -> None:
    """A sentence has more sampled segmentations than `candidates`."""
    assert len({tuple(sample_ids(TEXT, seed, candidates=2)) for seed in range(300)}) > 16
