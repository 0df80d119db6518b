"""Sampling draws what it should, as often as it should."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.data.pairs import with_ends
from regard.decoding.config import SearchConfig
from regard.decoding.greedy import drawn, kept_top_k, kept_top_p
from regard.decoding.search import search
from toys import sentences, small_model

INF = float("inf")


def test_top_k_keeps_the_k_likeliest() -> None:
    log_probs = torch.tensor([[0.1, 0.4, 0.2, 0.3]]).log()
    assert torch.isfinite(kept_top_k(log_probs, 2)).tolist() == [[False, True, False, True]]
    assert torch.equal(kept_top_k(log_probs, 0), log_probs)


@pytest.mark.parametrize(("p", "kept"), [(0.0, 1), (0.3, 1), (0.5, 2), (0.7, 2), (0.71, 3)])
def test_top_p_keeps_the_fewest_that_reach_p(p: float, kept: int) -> None:
    log_probs = torch.tensor([[0.1, 0.4, 0.2, 0.3]]).double().log()
    assert int(torch.isfinite(kept_top_p(log_probs, p)).sum()) == kept


def test_draws_follow_the_probabilities() -> None:
    probabilities = torch.tensor([0.1, 0.0, 0.6, 0.3, 0.0])
    draws = torch.linspace(0, 1, 10_001)[:-1]
    found = drawn(probabilities.expand(len(draws), -1), draws)
    shares = np.bincount(found.numpy(), minlength=5) / len(draws)
    assert shares == pytest.approx(probabilities.numpy(), abs=1e-3)
    assert shares[1] == shares[4] == 0


def test_the_largest_draw_never_falls_behind_the_last_word() -> None:
    probabilities = torch.rand(50, 1000).softmax(-1)
    probabilities[:, -3:] = 0
    found = drawn(probabilities, torch.full((50,), 1 - 2**-24))
    assert (found < 997).all()


def test_same_seed_same_sample() -> None:
    model, source = small_model(), with_ends(sentences(8))

    def tokens(seed: int) -> list[list[int]]:
        return [h[0].tokens for h in search(model, source, SearchConfig(sample=True, seed=seed))]

    assert tokens(1) == tokens(1)
    assert tokens(1) != tokens(2)


def test_several_samples_come_back() -> None:
    config = SearchConfig(sample=True, top_beams=4)
    for found in search(small_model(), with_ends(sentences(3)), config):
        assert len(found) == 4
        assert len({tuple(h.tokens) for h in found}) > 1


def test_top_k_of_one_is_greedy() -> None:
    model, source = small_model(), with_ends(sentences(8))
    sampled = search(model, source, SearchConfig(sample=True, top_k=1))
    greedy = search(model, source, SearchConfig(beam_size=1))
    assert [h[0].tokens for h in sampled] == [h[0].tokens for h in greedy]
