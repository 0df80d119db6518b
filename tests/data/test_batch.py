"""Batches: duplication, device transfer and pickling by field."""

from __future__ import annotations

import pickle
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.data.batch import (
    Batch,
    DistilledBatch,
    DistilledFertilityBatch,
    Distributions,
    FertilityBatch,
    PermutedBatch,
    PrefixBatch,
    SentencePairBatch,
    StreamBatch,
    TaggedBatch,
    from_numpy,
    to_numpy,
)
from regard.data.ragged import Lengths, Ragged

sentences = st.lists(st.lists(st.integers(4, 99), min_size=1, max_size=7), min_size=1, max_size=6)
SIDES = Ragged.of([[5, 6, 3], [7, 3]]), Ragged.of([[8, 3], [9, 10, 3]])
DISTRIBUTIONS = Distributions(torch.arange(10).view(5, 2), torch.rand(5, 2).half())
COUNTS = torch.tensor([1, 0, 0, 2, 0])
SEGMENTS = torch.tensor([0, 1, 1, 0, 1])
BATCHES = [
    Batch(*SIDES, 1),
    DistilledBatch(*SIDES, distributions=DISTRIBUTIONS),
    FertilityBatch(*SIDES, fertilities=COUNTS),
    DistilledFertilityBatch(*SIDES, fertilities=COUNTS, distributions=DISTRIBUTIONS),
    PrefixBatch(*SIDES, prefixes=torch.tensor([1, 2])),
    SentencePairBatch(*SIDES, segments=SEGMENTS, next_sentence_labels=torch.tensor([1, 0])),
    StreamBatch(*SIDES, continues=True),
    PermutedBatch(*SIDES, ranks=torch.tensor([0, 1, 2, 0, 1])),
    PermutedBatch(*SIDES, segments=SEGMENTS, continues=True),
    TaggedBatch(*SIDES, words=Lengths.of([1, 2])),
    TaggedBatch(*SIDES, words=Lengths.of([1, 2]), word_bytes=Ragged.of([[4], [5, 6]])),
]
all_batch_types = pytest.mark.parametrize("batch", BATCHES, ids=lambda batch: type(batch).__name__)


def plain(value: Any) -> Any:
    """A batch as plain numbers, by field."""
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, Lengths):
        return value.lengths.tolist(), value.longest, value.total
    if is_dataclass(value):
        named = {field.name: plain(getattr(value, field.name)) for field in fields(value)}
        return type(value), named
    return value


@all_batch_types
def test_batches_are_pickled_with_all_fields(batch: Batch) -> None:
    sent = pickle.loads(pickle.dumps(to_numpy(batch)))
    assert plain(from_numpy(sent)) == plain(batch)


@all_batch_types
def test_duplicate_and_to_cover_all_fields(batch: Batch) -> None:
    duplicated, moved = batch.duplicate(), batch.to(torch.device("cpu"))
    assert plain(moved) == plain(batch)
    assert type(duplicated) is type(batch)
    assert duplicated.target_tokens == 2 * batch.target_tokens
    for field in fields(batch):
        value, doubled = getattr(batch, field.name), getattr(duplicated, field.name)
        if isinstance(value, Tensor):
            assert doubled.tolist() == value.tolist() * 2
        elif isinstance(value, Lengths):
            assert doubled.lengths.tolist() == value.lengths.tolist() * 2
        elif isinstance(value, Ragged):
            assert doubled.tokens.tolist() == value.tokens.tolist() * 2
            assert doubled.lengths.lengths.tolist() == value.lengths.lengths.tolist() * 2
        elif isinstance(value, Distributions):
            assert doubled.token_ids.tolist() == value.token_ids.tolist() * 2
            assert doubled.probabilities.tolist() == value.probabilities.tolist() * 2
        elif field.name != "filler":
            assert doubled == value


def test_empty_batch_has_no_targets() -> None:
    assert Batch.empty().target_tokens == 0


@settings(deadline=None)
@given(sentences, sentences)
def test_duplicate_concatenates_two_copies(
    source: list[list[int]], target: list[list[int]]
) -> None:
    batch = Batch(Ragged.of(source), Ragged.of(target)).duplicate()
    for row, expected in (
        (batch.source, Ragged.of(source * 2)),
        (batch.target, Ragged.of(target * 2)),
    ):
        assert row.tokens.tolist() == expected.tokens.tolist()
        assert row.lengths.lengths.tolist() == expected.lengths.lengths.tolist()
        assert (row.lengths.longest, row.lengths.total) == (
            expected.lengths.longest,
            expected.lengths.total,
        )


def test_target_tokens_are_counted() -> None:
    assert Batch(Ragged.of([[5, 6], [7]]), Ragged.of([[5], [8, 9, 10]])).target_tokens == 4


def test_to_the_same_device() -> None:
    batch = Batch(Ragged.of([[5, 6], [7]]), Ragged.of([[5], [8, 9]])).to(torch.device("cpu"))
    assert batch.source.tokens.tolist() == [5, 6, 7]
    assert batch.target.lengths.lengths.tolist() == [1, 2]
