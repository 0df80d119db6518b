"""Masks against their definitions, position by position."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention import causal, padding, permutation, prefix, segments, window

sizes = st.integers(1, 9)


@given(lengths=st.lists(sizes, min_size=1, max_size=4))
def test_padding_mask(lengths: list[int]) -> None:
    mask = padding(torch.tensor(lengths), max(lengths))
    assert mask.shape == (len(lengths), 1, 1, max(lengths))
    for row, length in zip(mask[:, 0, 0], lengths, strict=True):
        assert row.tolist() == [position < length for position in range(max(lengths))]


@given(queries=sizes, more=st.integers(0, 5))
def test_causal_mask_shows_current_and_past_positions(queries: int, more: int) -> None:
    keys = queries + more
    expected = [[k <= q + more for k in range(keys)] for q in range(queries)]
    assert causal(queries, keys).tolist() == expected


@given(lengths=st.lists(st.integers(0, 7), min_size=1, max_size=4), more=st.integers(1, 4))
def test_prefix_mask_is_causal_after_the_prefix(lengths: list[int], more: int) -> None:
    longest = max(lengths) + more
    mask = prefix(torch.tensor(lengths), longest)
    for ours, length in zip(mask[:, 0], lengths, strict=True):
        expected = [[k < length or k <= q for k in range(longest)] for q in range(longest)]
        assert ours.tolist() == expected


@given(order=st.integers(1, 8).flatmap(lambda n: st.permutations(range(n))), itself=st.booleans())
def test_permutation_mask_shows_lower_ranks(order: list[int], itself: bool) -> None:
    ranks = torch.tensor([order.index(position) for position in range(len(order))])
    mask = permutation(ranks, itself=itself)[0]
    for number, position in enumerate(order):
        visible = {*order[: number + itself]}
        assert {key for key in range(len(order)) if mask[position, key]} == visible


def test_identity_permutation_is_causal() -> None:
    assert torch.equal(permutation(torch.arange(6))[0], causal(6, 6))


@given(
    queries=st.lists(st.integers(0, 2), min_size=1, max_size=6),
    keys=st.lists(st.integers(0, 2), min_size=1, max_size=6),
)
def test_segment_mask(queries: list[int], keys: list[int]) -> None:
    mask = segments(torch.tensor([queries]), torch.tensor([keys]))
    assert mask[0, 0].tolist() == [[q == k for k in keys] for q in queries]


@given(queries=sizes, more=st.integers(0, 5), width=st.integers(0, 4))
def test_window_mask(queries: int, more: int, width: int) -> None:
    keys = queries + more
    expected = [[abs(q + more - k) <= width for k in range(keys)] for q in range(queries)]
    assert window(queries, keys, width).tolist() == expected


def test_masks_combine() -> None:
    both = padding(torch.tensor([3, 4]), 4) & causal(4, 4) & window(4, 4, 1)
    assert both.shape == (2, 1, 4, 4)
    assert both[0, 0, 3].tolist() == [False, False, True, False]
    assert both[1, 0, 3].tolist() == [False, False, True, True]
