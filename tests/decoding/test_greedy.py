"""Sampling follows the filtered distributions and the seed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.data.pairs import with_eos
from regard.decoding.config import SearchConfig
from regard.decoding.greedy import filter_epsilon, filter_top_k, filter_top_p, sample
from regard.decoding.search import search
from toys import sentences, small_transformer

INF = float("inf")


def test_top_k_keeps_the_k_most_probable() -> None:
    log_probs = torch.tensor([[0.1, 0.4, 0.2, 0.3]]).log()
    assert torch.isfinite(filter_top_k(log_probs, 2)).tolist() == [[False, True, False, True]]
    assert torch.equal(filter_top_k(log_probs, 0), log_probs)


@pytest.mark.parametrize(("p", "kept"), [(0.0, 1), (0.3, 1), (0.5, 2), (0.7, 2), (0.71, 3)])
def test_top_p_keeps_the_smallest_nucleus(p: float, kept: int) -> None:
    log_probs = torch.tensor([[0.1, 0.4, 0.2, 0.3]]).double().log()
    assert int(torch.isfinite(filter_top_p(log_probs, p)).sum()) == kept


@pytest.mark.parametrize(("epsilon", "kept"), [(0.0, 4), (0.15, 3), (0.3, 2), (0.35, 1), (0.9, 1)])
def test_epsilon_cutoff_keeps_probable_tokens(epsilon: float, kept: int) -> None:
    log_probs = torch.tensor([[0.1, 0.4, 0.2, 0.3]]).double().log()
    assert int(torch.isfinite(filter_epsilon(log_probs, epsilon)).sum()) == kept


def test_sampling_follows_the_probabilities() -> None:
    probabilities = torch.tensor([0.1, 0.0, 0.6, 0.3, 0.0])
    uniform = torch.linspace(0, 1, 10_001)[:-1]
    tokens = sample(probabilities.expand(len(uniform), -1), uniform)
    frequencies = np.bincount(tokens.numpy(), minlength=5) / len(uniform)
    assert frequencies == pytest.approx(probabilities.numpy(), abs=1e-3)
    assert frequencies[1] == frequencies[4] == 0


def test_rounding_never_samples_a_token_of_probability_zero() -> None:
    probabilities = torch.rand(50, 1000).softmax(-1)
    probabilities[:, -3:] = 0
    tokens = sample(probabilities, torch.full((50,), 1 - 2**-24))
    assert (tokens < 997).all()


def test_samples_depend_on_the_seed_only() -> None:
    model, source = small_transformer(), with_eos(sentences(8))

    def tokens(seed: int) -> list[list[int]]:
        return [h[0].tokens for h in search(model, source, SearchConfig(sample=True, seed=seed))]

    assert tokens(1) == tokens(1)
    assert tokens(1) != tokens(2)


def test_several_samples_per_sentence() -> None:
    config = SearchConfig(sample=True, num_hypotheses=4)
    for hypotheses in search(small_transformer(), with_eos(sentences(3)), config):
        assert len(hypotheses) == 4
        assert len({tuple(h.tokens) for h in hypotheses}) > 1


def test_top_k_of_one_is_greedy() -> None:
    model, source = small_transformer(), with_eos(sentences(8))
    sampled = search(model, source, SearchConfig(sample=True, top_k=1))
    greedy = search(model, source, SearchConfig(beam_size=1))
    assert [h[0].tokens for h in sampled] == [h[0].tokens for h in greedy]
