"""Scores, masks and positions, against their definitions."""

from __future__ import annotations

import math

import pytest
import torch

from regard.attention import attend, causal, padding, sinusoids
from regard.attention.attend import attention_weights


def test_attention_is_the_weighted_sum_of_the_definition() -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(4, 6), torch.randn(5, 6), torch.randn(5, 3)
    found = attend(query[None], key[None], value[None])[0]
    for t in range(4):
        scores = [float(query[t] @ key[n]) / math.sqrt(6) for n in range(5)]
        total = sum(math.exp(score) for score in scores)
        expected = sum(math.exp(s) / total * value[n] for n, s in enumerate(scores))
        torch.testing.assert_close(found[t], expected, atol=1e-5, rtol=0)


def test_a_score_of_ones_own_takes_the_plain_way() -> None:
    query, key, value = torch.randn(3, 1, 4, 6).unbind(0)
    halved = attend(query, key, value, score=lambda q, k: q @ k.transpose(-2, -1) / 6**0.5)
    torch.testing.assert_close(halved, attend(query, key, value), atol=1e-5, rtol=0)


def test_a_masked_key_has_weight_zero() -> None:
    mask = padding(torch.tensor([2, 5]), 5)
    weights = attention_weights(torch.randn(2, 3, 4, 8), torch.randn(2, 3, 5, 8), mask=mask)
    assert weights[0, :, :, 2:].abs().max() == 0
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 4))


def test_causal_sees_itself_and_the_past() -> None:
    expected = [[k <= q for k in range(4)] for q in range(4)]
    assert causal(4, 4).tolist() == expected
    assert causal(1, 4).tolist() == [[True] * 4]


@pytest.mark.parametrize("width", [1, 6, 7, 64])
def test_sinusoids_are_the_papers(width: int) -> None:
    table = sinusoids(40, width)
    for place in (0, 1, 17, 39):
        for d in range(width):
            angle = place / 10000 ** (2 * (d // 2) / width)
            expected = math.sin(angle) if d % 2 == 0 else math.cos(angle)
            assert float(table[place, d]) == pytest.approx(expected, abs=1e-6)


def test_halves_hold_the_same_numbers_in_another_order() -> None:
    interleaved, halves = sinusoids(30, 8), sinusoids(30, 8, "halves")
    assert torch.equal(halves, torch.cat([interleaved[:, 0::2], interleaved[:, 1::2]], 1))
