"""Batches within a budget, each sentence once an epoch, and any position found again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from regard.data.sampling import Position, RankShard, Weights, endless, epoch_batches, fill

Array = NDArray[np.int64]
pairs = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=50)
budgets = st.integers(1, 80)
seeds = st.integers(0, 2**32)
epochs = st.integers(0, 1000)


def sides(lengths: Sequence[tuple[int, int]]) -> tuple[Array, Array]:
    array = np.array(lengths, dtype=np.int64).reshape(-1, 2)
    return array[:, 0], array[:, 1]


def batches_from(
    position: Position,
    source: Array,
    target: Array,
    *,
    budget: int,
    seed: int,
    weights: Weights | None = None,
) -> Iterator[tuple[Position, Array]]:
    """Endless batches from a position on, each with the position after it."""
    return endless(
        position,
        lambda epoch: epoch_batches(
            source, target, budget=budget, seed=seed, epoch=epoch, weights=weights
        ),
    )


def lists(batches: Sequence[Array]) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


def keeps_budget(lengths: Sequence[tuple[int, int]], budget: int) -> bool:
    """Whether these sentences are a batch: within the budget on both sides, or one alone."""
    return len(lengths) == 1 or all(sum(side) <= budget for side in zip(*lengths, strict=True))


# Filling.


@settings(deadline=None)
@given(pairs, budgets)
def test_runs_follow_each_other_without_gaps(lengths: list[tuple[int, int]], budget: int) -> None:
    runs = fill(*sides(lengths), budget)
    assert [i for begin, end in runs for i in range(begin, end)] == [*range(len(lengths))]
    assert all(begin < end for begin, end in runs)


@settings(deadline=None)
@given(pairs, budgets)
def test_runs_keep_the_budget_on_both_sides(lengths: list[tuple[int, int]], budget: int) -> None:
    runs = fill(*sides(lengths), budget)
    assert all(keeps_budget(lengths[begin:end], budget) for begin, end in runs)


@settings(deadline=None)
@given(pairs, budgets)
def test_runs_are_as_long_as_the_budget_allows(lengths: list[tuple[int, int]], budget: int) -> None:
    for begin, end in fill(*sides(lengths), budget)[:-1]:
        assert not keeps_budget(lengths[begin : end + 1], budget)


def test_nothing_fills_no_run() -> None:
    assert fill(*sides([]), 10) == []


def test_a_sentence_longer_than_the_budget_is_alone() -> None:
    assert fill(*sides([(2, 2), (50, 1), (2, 2), (1, 50), (2, 2)]), 10) == [
        (0, 1),
        (1, 2),
        (2, 3),
        (3, 4),
        (4, 5),
    ]


def test_the_budget_itself_is_allowed() -> None:
    assert fill(*sides([(5, 1), (5, 1), (1, 1)]), 10) == [(0, 2), (2, 3)]


# An epoch.


@settings(deadline=None)
@given(pairs, budgets, seeds, epochs)
def test_each_sentence_comes_once_in_an_epoch(
    lengths: list[tuple[int, int]], budget: int, seed: int, epoch: int
) -> None:
    batches = epoch_batches(*sides(lengths), budget=budget, seed=seed, epoch=epoch)
    assert sorted(i for batch in lists(batches) for i in batch) == [*range(len(lengths))]


@settings(deadline=None)
@given(pairs, budgets, seeds, epochs)
def test_batches_keep_the_budget_on_both_sides(
    lengths: list[tuple[int, int]], budget: int, seed: int, epoch: int
) -> None:
    batches = epoch_batches(*sides(lengths), budget=budget, seed=seed, epoch=epoch)
    assert all(keeps_budget([lengths[i] for i in batch], budget) for batch in lists(batches))


@settings(deadline=None)
@given(pairs, budgets, seeds, epochs)
def test_seed_and_epoch_alone_decide(
    lengths: list[tuple[int, int]], budget: int, seed: int, epoch: int
) -> None:
    first, second = (
        epoch_batches(*sides(lengths), budget=budget, seed=seed, epoch=epoch) for _ in range(2)
    )
    assert lists(first) == lists(second)


@pytest.fixture(scope="module")
def corpus() -> tuple[Array, Array]:
    """Lengths of a thousand pairs."""
    generator = np.random.default_rng(0)
    target = generator.integers(1, 40, 1000)
    return np.maximum(1, target + generator.integers(-3, 4, 1000)), target


@pytest.mark.parametrize(("seed", "epoch"), [(1, 1), (2, 0)])
def test_another_seed_or_epoch_brings_others_together(
    corpus: tuple[Array, Array], seed: int, epoch: int
) -> None:
    first, second = (
        {frozenset(batch) for batch in lists(epoch_batches(*corpus, budget=200, seed=s, epoch=e))}
        for s, e in [(1, 0), (seed, epoch)]
    )
    assert len(first & second) < len(first) / 10


def test_batches_come_in_no_order_of_length(corpus: tuple[Array, Array]) -> None:
    batches = epoch_batches(*corpus, budget=200, seed=1, epoch=0)
    means = [corpus[1][batch].mean() for batch in batches]
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.3


def test_sentences_of_like_length_come_together(corpus: tuple[Array, Array]) -> None:
    batches = epoch_batches(*corpus, budget=200, seed=1, epoch=0)
    spreads = [np.ptp(corpus[1][batch]) for batch in batches]
    assert max(spreads) <= 5
    assert np.mean(spreads) < 2


def test_batches_are_filled(corpus: tuple[Array, Array]) -> None:
    batches = epoch_batches(*corpus, budget=200, seed=1, epoch=0)
    fullest = [max(corpus[0][batch].sum(), corpus[1][batch].sum()) for batch in batches]
    assert np.mean(fullest) > 0.85 * 200


# Weights.


def counts(batches: Sequence[Array], sentences: int) -> Array:
    """How often each sentence comes."""
    return np.bincount(np.concatenate([np.zeros(0, np.int64), *batches]), minlength=sentences)


def test_without_weights_nothing_is_drawn_but_jitter_and_order(
    corpus: tuple[Array, Array],
) -> None:
    # So runs that began before there were weights go on as they were.
    source, target = corpus
    generator = np.random.default_rng([7, 2])
    jitter = 2 * generator.random((2, len(target)))
    order = np.lexsort((source + jitter[0], np.floor(target + jitter[1])))
    runs = fill(source[order], target[order], 200)
    generator.shuffle(runs)
    batches = epoch_batches(source, target, budget=200, seed=7, epoch=2)
    assert lists(batches) == [order[begin:end].tolist() for begin, end in runs]


@settings(deadline=None)
@given(pairs, budgets, seeds, epochs)
def test_weights_of_one_bring_each_sentence_once(
    lengths: list[tuple[int, int]], budget: int, seed: int, epoch: int
) -> None:
    batches = epoch_batches(
        *sides(lengths), budget=budget, seed=seed, epoch=epoch, weights=np.ones(len(lengths))
    )
    assert sorted(i for batch in lists(batches) for i in batch) == [*range(len(lengths))]
    assert all(keeps_budget([lengths[i] for i in batch], budget) for batch in lists(batches))


@pytest.mark.parametrize("weight", [0.0, 0.1, 0.5, 1.0, 1.25, 2.0, 3.9])
def test_a_sentence_comes_as_often_as_its_weight_says(
    corpus: tuple[Array, Array], weight: float
) -> None:
    weights = np.full(1000, weight)
    found = np.array(
        [
            counts(epoch_batches(*corpus, budget=200, seed=3, epoch=epoch, weights=weights), 1000)
            for epoch in range(20)
        ]
    )
    assert set(np.unique(found)) <= {np.floor(weight), np.ceil(weight)}
    chance = weight % 1
    deviation = np.sqrt(chance * (1 - chance) / found.size)
    assert abs(found.mean() - weight) <= 4 * deviation


def test_each_sentence_has_its_own_weight(corpus: tuple[Array, Array]) -> None:
    weights = np.repeat([1.0, 0.0, 3.0], [400, 300, 300])
    found = counts(epoch_batches(*corpus, budget=200, seed=1, epoch=0, weights=weights), 1000)
    assert found.tolist() == weights.tolist()


def test_half_a_corpus_is_another_half_in_another_epoch(corpus: tuple[Array, Array]) -> None:
    def half(seed: int, epoch: int) -> list[int]:
        weights = np.full(1000, 0.5)
        batches = epoch_batches(*corpus, budget=200, seed=seed, epoch=epoch, weights=weights)
        return counts(batches, 1000).tolist()

    assert half(1, 0) == half(1, 0)
    for other in (half(1, 1), half(2, 0)):
        assert 300 < sum(a != b for a, b in zip(half(1, 0), other, strict=True)) < 700


def test_copies_of_a_sentence_do_not_stay_together(corpus: tuple[Array, Array]) -> None:
    weights = np.full(1000, 2.0)
    batches = epoch_batches(*corpus, budget=200, seed=1, epoch=0, weights=weights)
    twice = sum(len(batch) - len(set(batch)) for batch in lists(batches))
    assert twice < 500


def test_epochs_without_a_sentence_are_passed_over() -> None:
    lengths, weights = sides([(2, 2)] * 3), np.full(3, 0.1)

    def some(position: Position, count: int) -> list[tuple[Position, list[int]]]:
        batches = batches_from(position, *lengths, budget=9, seed=1, weights=weights)
        return [(after, indices.tolist()) for after, indices in islice(batches, count)]

    whole = some(Position(), 20)
    assert whole[-1][0].epoch > 20  # most epochs are empty
    for stop in range(1, 20):
        assert some(whole[stop - 1][0], 20 - stop) == whole[stop:]


# Shares.


@settings(deadline=None)
@given(st.lists(st.integers(1, 60), max_size=50), st.integers(1, 9))
def test_shares_are_a_partition_and_differ_by_one_sentence_at_most(
    lengths: list[int], processes: int
) -> None:
    array = np.array(lengths, dtype=np.int64)
    shares = [RankShard(number, processes).places(array) for number in range(processes)]
    assert sorted(place for share in shares for place in share.tolist()) == [*range(len(lengths))]
    assert all(share.tolist() == sorted(share) for share in shares)
    counts = [len(share) for share in shares]
    assert max(counts) - min(counts) <= 1
    tokens = [int(array[share].sum()) for share in shares]
    assert max(tokens) - min(tokens) <= max(lengths, default=0)


def test_sentences_are_dealt_out_to_and_fro() -> None:
    lengths = np.array([5, 9, 9, 1, 7, 3])
    assert [RankShard(number, 2).places(lengths).tolist() for number in (0, 1)] == [
        [0, 1, 5],
        [2, 3, 4],
    ]


def test_one_process_has_everything() -> None:
    assert RankShard().places(np.array([3, 1, 2])).tolist() == [0, 1, 2]


# A position.


@settings(deadline=None)
@given(pairs, budgets, st.integers(0, 100), st.data())
def test_batches_go_on_from_any_position_as_if_never_interrupted(
    lengths: list[tuple[int, int]], budget: int, seed: int, data: st.DataObject
) -> None:
    source, target = sides(lengths)
    weights = data.draw(st.none() | st.just(np.linspace(0.5, 2.5, len(lengths))))
    epoch_length = len(epoch_batches(source, target, budget=budget, seed=seed, epoch=0))
    stop = data.draw(st.integers(0, 2 * epoch_length))

    def some(position: Position, count: int) -> list[tuple[Position, list[int]]]:
        batches = batches_from(position, source, target, budget=budget, seed=seed, weights=weights)
        return [(after, indices.tolist()) for after, indices in islice(batches, count)]

    whole = some(Position(), stop + 5)
    position = whole[stop - 1][0] if stop else Position()
    assert some(position, 5) == whole[stop:]


@settings(deadline=None)
@given(pairs, budgets)
def test_positions_count_batches_and_epochs(lengths: list[tuple[int, int]], budget: int) -> None:
    source, target = sides(lengths)
    position = Position(3, 0)
    for epoch in (3, 4):
        batches = epoch_batches(source, target, budget=budget, seed=1, epoch=epoch)
        stream = batches_from(position, source, target, budget=budget, seed=1)
        found = list(islice(stream, len(batches)))
        places = [Position(epoch, number + 1) for number in range(len(batches) - 1)]
        assert [after for after, _ in found] == [*places, Position(epoch + 1, 0)]
        assert lists([indices for _, indices in found]) == lists(batches)
        position = found[-1][0]
