"""Fertilities: computation from alignments, and files in a store."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.corpora import prepare_pairs, some_pairs
from regard.data.fertilities import compute_fertilities, read_fertilities, write_fertilities
from regard.data.store import Store
from regard.errors import DataError


@given(st.integers(1, 9), st.data())
def test_fertilities_add_up_to_the_target(sources: int, data: st.DataObject) -> None:
    alignment = data.draw(st.lists(st.integers(-1, sources - 1), max_size=12))
    fertilities = compute_fertilities(np.array(alignment, dtype=np.int64), sources)
    assert len(fertilities) == sources
    assert fertilities.sum() == len(alignment)
    assert (fertilities >= np.bincount([h for h in alignment if h >= 0], minlength=sources)).all()


@pytest.mark.parametrize(
    ("alignment", "expected"),
    [
        ([0, 0, 2], [2, 0, 1]),
        ([-1, 1, -1], [0, 3, 0]),
        ([0, -1, 2], [2, 0, 1]),  # a tie: the earlier one
        ([0, -1, -1, -1, 2], [3, 0, 2]),
        ([-1, -1, -1, -1, -1, -1], [2, 2, 2]),
        ([], [0, 0, 0]),
    ],
)
def test_unaligned_subwords_follow_their_neighbor(
    alignment: list[int], expected: list[int]
) -> None:
    assert compute_fertilities(np.array(alignment, dtype=np.int64), 3).tolist() == expected


def test_excess_fertility_moves_to_neighbors() -> None:
    assert compute_fertilities(np.full(300, 1), 4).tolist() == [45, 255, 0, 0]
    assert compute_fertilities(np.full(600, 1), 4).tolist() == [255, 255, 90, 0]
    with pytest.raises(DataError, match=r"max-ratio"):
        compute_fertilities(np.zeros(511, dtype=np.int64), 2)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    prepare_pairs(tmp_path / "store", some_pairs(), some_pairs(5, seed=2))
    return Store(tmp_path / "store")


def test_fertilities_round_trip(store: Store) -> None:
    source = store.part("valid").source
    lengths = store.part("valid").target.lengths()
    rng = np.random.default_rng(0)
    values = [
        np.bincount(rng.integers(0, len(source[index]), length), minlength=len(source[index]))
        for index, length in enumerate(lengths)
    ]
    write_fertilities(store.folder, "valid", values)
    fertilities = read_fertilities(store.folder, "valid")
    assert [fertilities[i].tolist() for i in range(len(fertilities))] == [
        value.tolist() for value in values
    ]
    assert fertilities.lengths().tolist() == source.lengths().tolist()
    assert fertilities.flat().dtype == np.uint8


def test_missing_or_mismatched_fertilities_are_rejected(store: Store) -> None:
    with pytest.raises(DataError, match=r"train\.fertilities is missing.*regard align --data"):
        read_fertilities(store.folder, "train")
    source = store.part("train").source
    write_fertilities(store.folder, "train", [source.flat() * 0])
    os.truncate(store.folder / "train.fertilities", len(source.flat()) - 1)
    with pytest.raises(DataError, match=r"does not match the store.*regard align"):
        read_fertilities(store.folder, "train")


def test_every_changed_byte_is_detected(store: Store) -> None:
    part = store.part("train")
    lengths = part.target.lengths()
    values = [np.zeros(len(part.source[i]), np.int64) for i in range(len(part.source))]
    for value, length in zip(values, lengths, strict=True):
        value[-1] = length
    write_fertilities(store.folder, "train", values)
    read_fertilities(store.folder, "train")
    path = store.folder / "train.fertilities"
    content = path.read_bytes()
    for index in range(0, len(content), 7):
        changed = bytearray(content)
        changed[index] ^= 1 + index % 255
        path.write_bytes(changed)
        with pytest.raises(DataError, match=r"do not add up.*regard align"):
            read_fertilities(store.folder, "train")
