"""Scores against their definitions, pair by pair."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from regard.attention import Additive, Bilinear, ProjectedDot, attend, dot, scaled_dot
from regard.attention.scores import Score

sizes = st.integers(1, 6)
# For each module: how it is made, and its score of one key and one query by the definition.
Definition = Callable[[Any, Tensor, Tensor], Any]
MODULES: dict[str, tuple[Callable[..., nn.Module], Definition]] = {
    "additive": (
        lambda q, k, num_heads=None: Additive(q, k, 5, num_heads),
        lambda m, k, q: (m.out.squeeze(-1) * torch.tanh(k @ m.key + q @ m.query)).sum(),
    ),
    "bilinear": (
        lambda q, k, num_heads=None: Bilinear(q, k, num_heads=num_heads),
        lambda m, k, q: sum(
            k[i] * m.weight[j, i] * q[j] for i in range(len(k)) for j in range(len(q))
        ),
    ),
    "scaled bilinear": (
        lambda q, k, num_heads=None: Bilinear(q, k, scaled=True, num_heads=num_heads),
        lambda m, k, q: (q @ m.weight @ k) / len(k) ** 0.5,
    ),
    "projected dot": (
        lambda q, k, num_heads=None: ProjectedDot(q, k, 5, num_heads),
        lambda m, k, q: ((q @ m.query) * (k @ m.key)).sum() / 5**0.5,
    ),
}


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def by_hand(score: Callable[[Tensor, Tensor], Tensor], query: Tensor, key: Tensor) -> Tensor:
    """(B, T, dq), (B, S, dk) -> (B, T, S), one pair at a time."""
    return torch.stack(
        [
            torch.stack([torch.stack([score(k, q) for k in keys]) for q in queries])
            for queries, keys in zip(query, key, strict=True)
        ]
    )


@settings(deadline=None, max_examples=25)
@given(batch=sizes, queries=sizes, keys=sizes, width=sizes)
@pytest.mark.parametrize("scaled", [False, True])
def test_dot_products(scaled: bool, batch: int, queries: int, keys: int, width: int) -> None:
    query, key = random(batch, queries, width), random(batch, keys, width)
    scale = width**-0.5 if scaled else 1.0
    actual = scaled_dot(query, key) if scaled else dot(query, key)
    torch.testing.assert_close(actual, by_hand(lambda k, q: (k * q).sum() * scale, query, key))


@pytest.mark.parametrize("name", MODULES)
@settings(deadline=None, max_examples=25)
@given(batch=sizes, queries=sizes, keys=sizes, query_width=sizes, key_width=sizes)
def test_parametric_scores(
    name: str, batch: int, queries: int, keys: int, query_width: int, key_width: int
) -> None:
    make, definition = MODULES[name]
    module = make(query_width, key_width).double()
    query, key = random(batch, queries, query_width), random(batch, keys, key_width)
    actual, expected = (
        module(query, key),
        by_hand(lambda k, q: definition(module, k, q), query, key),
    )
    torch.testing.assert_close(actual, expected)
    weights = list(module.parameters())
    noise = torch.randn_like(actual)
    for ours, theirs in zip(
        torch.autograd.grad((actual * noise).sum(), weights),
        torch.autograd.grad((expected * noise).sum(), weights),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", MODULES)
def test_heads_have_separate_weights(name: str) -> None:
    make, _ = MODULES[name]
    several, alone = make(4, 3, num_heads=2).double(), make(4, 3).double()
    query, key = random(5, 2, 6, 4), random(5, 2, 7, 3)
    actual = several(query, key)
    for head in range(2):
        with torch.no_grad():
            for ours, shared in zip(alone.parameters(), several.parameters(), strict=True):
                ours.copy_(shared[head])
        torch.testing.assert_close(actual[:, head], alone(query[:, head], key[:, head]))


@pytest.mark.parametrize("name", MODULES)
def test_attend_supports_any_score(name: str) -> None:
    score: Score = MODULES[name][0](4, 3).double()
    query, key, value = random(2, 5, 4), random(2, 6, 3), random(2, 6, 7)
    actual = attend(query, key, value, score=score)
    torch.testing.assert_close(actual, score(query, key).softmax(-1) @ value)


@pytest.mark.parametrize("width", [4, 64, 1024])
def test_scaling_keeps_unit_variance(width: int) -> None:
    torch.manual_seed(0)
    query, key = torch.randn(400, width), torch.randn(400, width)
    assert float(scaled_dot(query, key).var()) == pytest.approx(1, rel=0.1)
    assert float(dot(query, key).var()) == pytest.approx(width, rel=0.1)
