"""Selections: their weights and their gradients."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.attention import (
    attend,
    hard,
    reinforce,
    sampled,
    scaled_dot,
    soft,
    straight_through,
    with_log_probs,
)

sizes = st.integers(1, 6)


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def masks(*shape: int) -> Tensor:
    """Random masks; the first row is fully masked."""
    mask = torch.rand(*shape) < 0.6
    mask[..., 0, :] = False
    return mask


@settings(deadline=None, max_examples=30)
@given(batch=sizes, queries=sizes, keys=sizes, masked=st.booleans())
def test_hard_selects_the_best_visible_key(
    batch: int, queries: int, keys: int, masked: bool
) -> None:
    scores = random(batch, queries, keys)
    mask = masks(batch, queries, keys) if masked else None
    weights = hard(scores, mask)
    for b in range(batch):
        for t in range(queries):
            visible = [s for s in range(keys) if mask is None or mask[b, t, s]]
            best = max(visible, key=lambda s: float(scores[b, t, s]), default=None)
            assert weights[b, t].tolist() == [float(s == best) for s in range(keys)]


def test_samples_follow_the_softmax() -> None:
    scores = torch.tensor([[0.0, 1.0, 2.0, -1.0]])
    mask = torch.tensor([[True, True, True, False]])
    select = sampled(torch.Generator().manual_seed(3))
    counts = Counter(int(select(scores, mask).argmax()) for _ in range(3000))
    for position, share in enumerate(soft(scores, mask)[0].tolist()):
        assert counts[position] / 3000 == pytest.approx(share, abs=0.03)


def test_sampling_is_reproducible() -> None:
    scores = torch.randn(4, 5, 6)
    first, second, other = (
        sampled(torch.Generator().manual_seed(seed))(scores, None) for seed in (1, 1, 2)
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("select", [hard, sampled()], ids=["hard", "sampled"])
def test_hard_selections_are_one_hot_or_zero(select: object) -> None:
    scores, mask = torch.randn(3, 4, 5), masks(3, 4, 5)
    weights = select(scores, mask)  # type: ignore[operator]
    assert set(weights.unique().tolist()) <= {0.0, 1.0}
    assert torch.equal(weights.sum(-1) == 1, mask.any(-1))
    assert (weights * ~mask).sum() == 0


@pytest.mark.parametrize("select", [hard, sampled()], ids=["hard", "sampled"])
def test_straight_through_estimator(
    select: object,
) -> None:
    query, key, value = random(2, 3, 4), random(2, 5, 4), random(2, 5, 6)
    query.requires_grad_()
    torch.manual_seed(1)
    through = straight_through(select)  # type: ignore[arg-type]
    actual = attend(query, key, value, select=through)
    torch.manual_seed(1)
    chosen = attend(query, key, value, select=select)  # type: ignore[arg-type]
    torch.testing.assert_close(actual, chosen)
    noise = random(2, 3, 6)
    expected = torch.autograd.grad((attend(query, key, value) * noise).sum(), query)
    torch.testing.assert_close(torch.autograd.grad((actual * noise).sum(), query), expected)


def test_reinforce_estimates_the_gradient_of_the_expected_reward() -> None:
    """The mean estimate of many samples is the exact gradient."""
    scores = torch.tensor([0.3, -0.4, 0.8], dtype=torch.float64, requires_grad=True)
    rewards = torch.tensor([1.0, 3.0, -2.0], dtype=torch.float64)
    exact = torch.autograd.grad(scores.softmax(-1) @ rewards, scores)[0]
    draws = 60_000
    log_probs: list[Tensor] = []
    select = with_log_probs(sampled(torch.Generator().manual_seed(0)), log_probs)
    weights = select(scores.expand(draws, 1, 3), None)
    term = reinforce(log_probs[0].squeeze(-1), (weights @ rewards).squeeze(-1))
    estimate = -torch.autograd.grad(term, scores)[0]
    torch.testing.assert_close(estimate, exact, atol=0.02, rtol=0)


def test_with_log_probs_records_log_probs_of_selections() -> None:
    query, key = random(2, 3, 4), random(2, 5, 4)
    mask, log_probs = masks(2, 3, 5), []  # type: ignore[var-annotated]
    scores = scaled_dot(query, key)
    weights = with_log_probs(hard, log_probs)(scores, mask)
    assert torch.equal(weights, hard(scores, mask))
    expected = (soft(scores, mask) * weights).sum(-1).log().nan_to_num(neginf=0.0)
    torch.testing.assert_close(log_probs[0], expected)


@pytest.mark.parametrize("baseline_matters", [True, False])
def test_constant_rewards_have_no_gradient(baseline_matters: bool) -> None:
    log_probs = torch.zeros(4, requires_grad=True)
    rewards = torch.full((4,), 7.0) if baseline_matters else torch.zeros(4)
    reinforce(log_probs, rewards).backward()
    assert log_probs.grad is not None
    assert log_probs.grad.abs().max() == 0
