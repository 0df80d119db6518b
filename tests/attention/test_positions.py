"""Rotary and relative positions against slow reference implementations."""

from __future__ import annotations

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.attention import RelativeScore, attend, rotate, scaled_dot
from regard.attention.positions import sinusoids, sinusoids_at
from regard.attention.relative import relative_shift

sizes = st.integers(1, 7)


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def test_sinusoids_of_negative_positions() -> None:
    forward, backward = sinusoids_at(torch.arange(9), 6), sinusoids_at(-torch.arange(9), 6)
    torch.testing.assert_close(forward[:, 0::2], -backward[:, 0::2])
    torch.testing.assert_close(forward[:, 1::2], backward[:, 1::2])
    assert torch.equal(sinusoids(9, 6), forward)


# Rotary.


@given(position=st.integers(0, 5000), pairs=sizes)
def test_rotate_matches_complex_multiplication(position: int, pairs: int) -> None:
    vector = random(1, 2 * pairs)
    actual = rotate(vector, torch.tensor([position]))[0]
    for i in range(pairs):
        angle = position / 10000 ** (2 * i / (2 * pairs))
        number = complex(vector[0, 2 * i], vector[0, 2 * i + 1])
        turned = number * complex(math.cos(angle), math.sin(angle))
        assert abs(complex(actual[2 * i], actual[2 * i + 1]) - turned) < 1e-9


@settings(deadline=None)
@given(first=st.integers(0, 300), second=st.integers(0, 300), shift=st.integers(0, 300))
def test_rotary_scores_depend_on_distance_only(first: int, second: int, shift: int) -> None:
    query, key = random(1, 8), random(1, 8)

    def score_at(q: int, k: int) -> Tensor:
        return scaled_dot(rotate(query, torch.tensor([q])), rotate(key, torch.tensor([k])))

    torch.testing.assert_close(score_at(first, second), score_at(first + shift, second + shift))


def test_all_heads_are_rotated_equally() -> None:
    vectors, positions = random(5, 3, 4), torch.tensor([0, 1, 2, 0, 1])
    actual = rotate(vectors, positions)
    for head in range(3):
        torch.testing.assert_close(actual[:, head], rotate(vectors[:, head], positions))
    assert torch.equal(actual[3], vectors[3])  # at place 0 nothing turns


# Relative.


def slow(score: RelativeScore, query: Tensor, key: Tensor) -> Tensor:
    """The four terms for one head, query and key at a time."""
    batch, heads, queries, width = query.shape
    keys = key.shape[2]
    actual = torch.zeros(batch, heads, queries, keys, dtype=query.dtype)
    for i in range(queries):
        for j in range(keys):
            distance = torch.tensor([keys - queries + i - j])
            encoded = sinusoids_at(distance, heads * width).double()
            r = score.distance(encoded).view(heads, width)
            for h in range(heads):
                u, v = score.key_bias[h, 0], score.distance_bias[h, 0]
                for b in range(batch):
                    q, k = query[b, h, i], key[b, h, j]
                    total = q @ k + q @ r[h] + u @ k + v @ r[h]
                    actual[b, h, i, j] = total / width**0.5
    return actual


def relative(heads: int, width: int) -> RelativeScore:
    score = RelativeScore(heads, width).double()
    torch.nn.init.normal_(score.key_bias)
    torch.nn.init.normal_(score.distance_bias)
    return score


@settings(deadline=None, max_examples=15)
@given(heads=st.integers(1, 3), queries=sizes, more=st.integers(0, 4), pairs=st.integers(1, 3))
def test_relative_score_matches_the_definition(
    heads: int, queries: int, more: int, pairs: int
) -> None:
    score = relative(heads, 2 * pairs)
    query, key = random(2, heads, queries, 2 * pairs), random(2, heads, queries + more, 2 * pairs)
    actual, expected = score(query, key), slow(score, query, key)
    torch.testing.assert_close(actual, expected)
    weights, noise = list(score.parameters()), torch.randn_like(actual)
    for ours, theirs in zip(
        torch.autograd.grad((actual * noise).sum(), weights),
        torch.autograd.grad((expected * noise).sum(), weights),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


@given(rows=sizes, keys=sizes)
def test_relative_shift_matches_indexing(rows: int, keys: int) -> None:
    scores = random(2, rows, rows + keys - 1)
    actual = relative_shift(scores, keys)
    for i in range(rows):
        assert torch.equal(actual[:, i], scores[:, i, rows - 1 - i : rows - 1 - i + keys])


def test_relative_score_of_one_step_is_the_last_row() -> None:
    score, query, key = relative(2, 4), random(3, 2, 6, 4), random(3, 2, 6, 4)
    whole = score(query, key)
    torch.testing.assert_close(score(query[:, :, -1:], key), whole[:, :, -1:])
    value = random(3, 2, 6, 5)
    torch.testing.assert_close(attend(query, key, value, score=score), whole.softmax(-1) @ value)
