"""Token-based batching: limits, epochs, weights, shards and positions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from regard.data.sampling import (
    Position,
    RankShard,
    Weights,
    epoch_batches,
    fill_batches,
    iterate_epochs,
)

Array = NDArray[np.int64]
pairs = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=50)
token_limits = st.integers(1, 80)
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
    max_tokens: int,
    seed: int,
    weights: Weights | None = None,
) -> Iterator[tuple[Position, Array]]:
    """Infinite batches from a position on, each with the position after it."""
    return iterate_epochs(
        position,
        lambda epoch: epoch_batches(
            source, target, max_tokens=max_tokens, seed=seed, epoch=epoch, weights=weights
        ),
    )


def lists(batches: Sequence[Array]) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


def is_valid_batch(lengths: Sequence[tuple[int, int]], max_tokens: int) -> bool:
    """Whether sentences are within `max_tokens` on both sides, or a single one."""
    return len(lengths) == 1 or all(sum(side) <= max_tokens for side in zip(*lengths, strict=True))


# Filling.


@settings(deadline=None)
@given(pairs, token_limits)
def test_batches_are_contiguous(lengths: list[tuple[int, int]], max_tokens: int) -> None:
    ranges = fill_batches(*sides(lengths), max_tokens)
    assert [i for begin, end in ranges for i in range(begin, end)] == [*range(len(lengths))]
    assert all(begin < end for begin, end in ranges)


@settings(deadline=None)
@given(pairs, token_limits)
def test_filled_batches_respect_max_tokens(lengths: list[tuple[int, int]], max_tokens: int) -> None:
    ranges = fill_batches(*sides(lengths), max_tokens)
    assert all(is_valid_batch(lengths[begin:end], max_tokens) for begin, end in ranges)


@settings(deadline=None)
@given(pairs, token_limits)
def test_batches_are_maximal(lengths: list[tuple[int, int]], max_tokens: int) -> None:
    for begin, end in fill_batches(*sides(lengths), max_tokens)[:-1]:
        assert not is_valid_batch(lengths[begin : end + 1], max_tokens)


def test_no_sentences_give_no_batches() -> None:
    assert fill_batches(*sides([]), 10) == []


def test_long_sentence_is_a_batch_of_its_own() -> None:
    assert fill_batches(*sides([(2, 2), (50, 1), (2, 2), (1, 50), (2, 2)]), 10) == [
        (0, 1),
        (1, 2),
        (2, 3),
        (3, 4),
        (4, 5),
    ]


def test_max_tokens_is_inclusive() -> None:
    assert fill_batches(*sides([(5, 1), (5, 1), (1, 1)]), 10) == [(0, 2), (2, 3)]


# An epoch.


@settings(deadline=None)
@given(pairs, token_limits, seeds, epochs)
def test_each_sentence_occurs_once_per_epoch(
    lengths: list[tuple[int, int]], max_tokens: int, seed: int, epoch: int
) -> None:
    batches = epoch_batches(*sides(lengths), max_tokens=max_tokens, seed=seed, epoch=epoch)
    assert sorted(i for batch in lists(batches) for i in batch) == [*range(len(lengths))]


@settings(deadline=None)
@given(pairs, token_limits, seeds, epochs)
def test_epoch_batches_respect_max_tokens(
    lengths: list[tuple[int, int]], max_tokens: int, seed: int, epoch: int
) -> None:
    batches = epoch_batches(*sides(lengths), max_tokens=max_tokens, seed=seed, epoch=epoch)
    assert all(is_valid_batch([lengths[i] for i in batch], max_tokens) for batch in lists(batches))


@settings(deadline=None)
@given(pairs, token_limits, seeds, epochs)
def test_epoch_batches_are_deterministic(
    lengths: list[tuple[int, int]], max_tokens: int, seed: int, epoch: int
) -> None:
    first, second = (
        epoch_batches(*sides(lengths), max_tokens=max_tokens, seed=seed, epoch=epoch)
        for _ in range(2)
    )
    assert lists(first) == lists(second)


@pytest.fixture(scope="module")
def corpus() -> tuple[Array, Array]:
    """Lengths of a thousand pairs."""
    generator = np.random.default_rng(0)
    target = generator.integers(1, 40, 1000)
    return np.maximum(1, target + generator.integers(-3, 4, 1000)), target


@pytest.mark.parametrize(("seed", "epoch"), [(1, 1), (2, 0)])
def test_batches_differ_between_seeds_and_epochs(
    corpus: tuple[Array, Array], seed: int, epoch: int
) -> None:
    first, second = (
        {
            frozenset(batch)
            for batch in lists(epoch_batches(*corpus, max_tokens=200, seed=s, epoch=e))
        }
        for s, e in [(1, 0), (seed, epoch)]
    )
    assert len(first & second) < len(first) / 10


def test_batches_are_shuffled(corpus: tuple[Array, Array]) -> None:
    batches = epoch_batches(*corpus, max_tokens=200, seed=1, epoch=0)
    means = [corpus[1][batch].mean() for batch in batches]
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.3


def test_batches_have_similar_lengths(corpus: tuple[Array, Array]) -> None:
    batches = epoch_batches(*corpus, max_tokens=200, seed=1, epoch=0)
    spreads = [np.ptp(corpus[1][batch]) for batch in batches]
    assert max(spreads) <= 5
    assert np.mean(spreads) < 2


def test_batches_are_filled(corpus: tuple[Array, Array]) -> None:
    batches = epoch_batches(*corpus, max_tokens=200, seed=1, epoch=0)
    fullest = [max(corpus[0][batch].sum(), corpus[1][batch].sum()) for batch in batches]
    assert np.mean(fullest) > 0.85 * 200


# Weights.


def counts(batches: Sequence[Array], sentences: int) -> Array:
    """How often each sentence occurs."""
    return np.bincount(np.concatenate([np.zeros(0, np.int64), *batches]), minlength=sentences)


def test_random_numbers_without_weights_are_unchanged(
    corpus: tuple[Array, Array],
) -> None:
    # Runs that started before weights were added resume unchanged.
    source, target = corpus
    generator = np.random.default_rng([7, 2])
    jitter = 2 * generator.random((2, len(target)))
    order = np.lexsort((source + jitter[0], np.floor(target + jitter[1])))
    ranges = fill_batches(source[order], target[order], 200)
    generator.shuffle(ranges)
    batches = epoch_batches(source, target, max_tokens=200, seed=7, epoch=2)
    assert lists(batches) == [order[begin:end].tolist() for begin, end in ranges]


@settings(deadline=None)
@given(pairs, token_limits, seeds, epochs)
def test_weights_of_one_give_each_sentence_once(
    lengths: list[tuple[int, int]], max_tokens: int, seed: int, epoch: int
) -> None:
    batches = epoch_batches(
        *sides(lengths),
        max_tokens=max_tokens,
        seed=seed,
        epoch=epoch,
        weights=np.ones(len(lengths)),
    )
    assert sorted(i for batch in lists(batches) for i in batch) == [*range(len(lengths))]
    assert all(is_valid_batch([lengths[i] for i in batch], max_tokens) for batch in lists(batches))


@pytest.mark.parametrize("weight", [0.0, 0.1, 0.5, 1.0, 1.25, 2.0, 3.9])
def test_sentences_occur_by_weight(corpus: tuple[Array, Array], weight: float) -> None:
    weights = np.full(1000, weight)
    occurrences = np.array(
        [
            counts(
                epoch_batches(*corpus, max_tokens=200, seed=3, epoch=epoch, weights=weights), 1000
            )
            for epoch in range(20)
        ]
    )
    assert set(np.unique(occurrences)) <= {np.floor(weight), np.ceil(weight)}
    chance = weight % 1
    deviation = np.sqrt(chance * (1 - chance) / occurrences.size)
    assert abs(occurrences.mean() - weight) <= 4 * deviation


def test_each_sentence_has_its_own_weight(corpus: tuple[Array, Array]) -> None:
    weights = np.repeat([1.0, 0.0, 3.0], [400, 300, 300])
    occurrences = counts(
        epoch_batches(*corpus, max_tokens=200, seed=1, epoch=0, weights=weights), 1000
    )
    assert occurrences.tolist() == weights.tolist()


def test_sampled_halves_differ_between_epochs(corpus: tuple[Array, Array]) -> None:
    def half(seed: int, epoch: int) -> list[int]:
        weights = np.full(1000, 0.5)
        batches = epoch_batches(*corpus, max_tokens=200, seed=seed, epoch=epoch, weights=weights)
        return counts(batches, 1000).tolist()

    assert half(1, 0) == half(1, 0)
    for other in (half(1, 1), half(2, 0)):
        assert 300 < sum(a != b for a, b in zip(half(1, 0), other, strict=True)) < 700


def test_copies_are_spread_over_batches(corpus: tuple[Array, Array]) -> None:
    weights = np.full(1000, 2.0)
    batches = epoch_batches(*corpus, max_tokens=200, seed=1, epoch=0, weights=weights)
    duplicates = sum(len(batch) - len(set(batch)) for batch in lists(batches))
    assert duplicates < 500


def test_empty_epochs_are_skipped() -> None:
    lengths, weights = sides([(2, 2)] * 3), np.full(3, 0.1)

    def some(position: Position, count: int) -> list[tuple[Position, list[int]]]:
        batches = batches_from(position, *lengths, max_tokens=9, seed=1, weights=weights)
        return [(after, indices.tolist()) for after, indices in islice(batches, count)]

    whole = some(Position(), 20)
    assert whole[-1][0].epoch > 20  # most epochs are empty
    for stop in range(1, 20):
        assert some(whole[stop - 1][0], 20 - stop) == whole[stop:]


# Shards.


@settings(deadline=None)
@given(st.lists(st.integers(1, 60), max_size=50), st.integers(1, 9))
def test_shards_are_a_balanced_partition(lengths: list[int], processes: int) -> None:
    array = np.array(lengths, dtype=np.int64)
    shards = [RankShard(number, processes).indices(array) for number in range(processes)]
    assert sorted(index for shard in shards for index in shard.tolist()) == [*range(len(lengths))]
    assert all(shard.tolist() == sorted(shard) for shard in shards)
    counts = [len(shard) for shard in shards]
    assert max(counts) - min(counts) <= 1
    tokens = [int(array[shard].sum()) for shard in shards]
    assert max(tokens) - min(tokens) <= max(lengths, default=0)


def test_shards_alternate_by_length() -> None:
    lengths = np.array([5, 9, 9, 1, 7, 3])
    assert [RankShard(number, 2).indices(lengths).tolist() for number in (0, 1)] == [
        [0, 1, 5],
        [2, 3, 4],
    ]


def test_single_rank_has_all_sentences() -> None:
    assert RankShard().indices(np.array([3, 1, 2])).tolist() == [0, 1, 2]


# Positions.


@settings(deadline=None)
@given(pairs, token_limits, st.integers(0, 100), st.data())
def test_batches_resume_from_any_position(
    lengths: list[tuple[int, int]], max_tokens: int, seed: int, data: st.DataObject
) -> None:
    source, target = sides(lengths)
    weights = data.draw(st.none() | st.just(np.linspace(0.5, 2.5, len(lengths))))
    epoch_length = len(epoch_batches(source, target, max_tokens=max_tokens, seed=seed, epoch=0))
    stop = data.draw(st.integers(0, 2 * epoch_length))

    def some(position: Position, count: int) -> list[tuple[Position, list[int]]]:
        batches = batches_from(
            position, source, target, max_tokens=max_tokens, seed=seed, weights=weights
        )
        return [(after, indices.tolist()) for after, indices in islice(batches, count)]

    whole = some(Position(), stop + 5)
    position = whole[stop - 1][0] if stop else Position()
    assert some(position, 5) == whole[stop:]


@settings(deadline=None)
@given(pairs, token_limits)
def test_positions_count_batches_and_epochs(
    lengths: list[tuple[int, int]], max_tokens: int
) -> None:
    source, target = sides(lengths)
    position = Position(3, 0)
    for epoch in (3, 4):
        batches = epoch_batches(source, target, max_tokens=max_tokens, seed=1, epoch=epoch)
        stream = batches_from(position, source, target, max_tokens=max_tokens, seed=1)
        items = list(islice(stream, len(batches)))
        expected = [Position(epoch, number + 1) for number in range(len(batches) - 1)]
        assert [after for after, _ in items] == [*expected, Position(epoch + 1, 0)]
        assert lists([indices for _, indices in items]) == lists(batches)
        position = items[-1][0]
