"""Rotary and relative positions, against slow forms that go distance by distance."""

from __future__ import annotations

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.attention import RelativeScore, attend, rotate, scaled_dot
from regard.attention.positions import sinusoids, sinusoids_at
from regard.attention.relative import shifted

sizes = st.integers(1, 7)


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def test_negative_places_mirror_the_sines() -> None:
    there, back = sinusoids_at(torch.arange(9), 6), sinusoids_at(-torch.arange(9), 6)
    torch.testing.assert_close(there[:, 0::2], -back[:, 0::2])
    torch.testing.assert_close(there[:, 1::2], back[:, 1::2])
    assert torch.equal(sinusoids(9, 6), there)


# Rotary.


@given(place=st.integers(0, 5000), pairs=sizes)
def test_each_pair_is_turned_as_a_complex_number(place: int, pairs: int) -> None:
    vector = random(1, 2 * pairs)
    found = rotate(vector, torch.tensor([place]))[0]
    for i in range(pairs):
        angle = place / 10000 ** (2 * i / (2 * pairs))
        number = complex(vector[0, 2 * i], vector[0, 2 * i + 1])
        turned = number * complex(math.cos(angle), math.sin(angle))
        assert abs(complex(found[2 * i], found[2 * i + 1]) - turned) < 1e-9


@settings(deadline=None)
@given(first=st.integers(0, 300), second=st.integers(0, 300), shift=st.integers(0, 300))
def test_only_the_distance_counts(first: int, second: int, shift: int) -> None:
    query, key = random(1, 8), random(1, 8)

    def met(q: int, k: int) -> Tensor:
        return scaled_dot(rotate(query, torch.tensor([q])), rotate(key, torch.tensor([k])))

    torch.testing.assert_close(met(first, second), met(first + shift, second + shift))


def test_heads_are_turned_alike() -> None:
    vectors, places = random(5, 3, 4), torch.tensor([0, 1, 2, 0, 1])
    found = rotate(vectors, places)
    for head in range(3):
        torch.testing.assert_close(found[:, head], rotate(vectors[:, head], places))
    assert torch.equal(found[3], vectors[3])  # at place 0 nothing turns


# Relative.


def slow(score: RelativeScore, query: Tensor, key: Tensor) -> Tensor:
    """The four terms for one head, query and key at a time."""
    batch, heads, queries, width = query.shape
    keys = key.shape[2]
    found = torch.zeros(batch, heads, queries, keys, dtype=query.dtype)
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
                    found[b, h, i, j] = total / width**0.5
    return found


def relative(heads: int, width: int) -> RelativeScore:
    score = RelativeScore(heads, width).double()
    torch.nn.init.normal_(score.key_bias)
    torch.nn.init.normal_(score.distance_bias)
    return score


@settings(deadline=None, max_examples=15)
@given(heads=st.integers(1, 3), queries=sizes, more=st.integers(0, 4), pairs=st.integers(1, 3))
def test_the_four_terms(heads: int, queries: int, more: int, pairs: int) -> None:
    score = relative(heads, 2 * pairs)
    query, key = random(2, heads, queries, 2 * pairs), random(2, heads, queries + more, 2 * pairs)
    found, expected = score(query, key), slow(score, query, key)
    torch.testing.assert_close(found, expected)
    weights, noise = list(score.parameters()), torch.randn_like(found)
    for ours, theirs in zip(
        torch.autograd.grad((found * noise).sum(), weights),
        torch.autograd.grad((expected * noise).sum(), weights),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


@given(rows=sizes, keys=sizes)
def test_the_shift_is_an_index(rows: int, keys: int) -> None:
    scores = random(2, rows, rows + keys - 1)
    found = shifted(scores, keys)
    for i in range(rows):
        assert torch.equal(found[:, i], scores[:, i, rows - 1 - i : rows - 1 - i + keys])


def test_one_step_is_the_last_row_of_all() -> None:
    score, query, key = relative(2, 4), random(3, 2, 6, 4), random(3, 2, 6, 4)
    whole = score(query, key)
    torch.testing.assert_close(score(query[:, :, -1:], key), whole[:, :, -1:])
    value = random(3, 2, 6, 5)
    torch.testing.assert_close(attend(query, key, value, score=score), whole.softmax(-1) @ value)
