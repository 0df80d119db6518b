"""Fertilities add up to the target, are read as they were written, and belong to their store."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.corpora import prepared, some_pairs
from regard.data.fertilities import fertilities, read_fertilities, write_fertilities
from regard.data.store import Store
from regard.errors import DataError


@given(st.integers(1, 9), st.data())
def test_fertilities_add_up_to_the_target(sources: int, data: st.DataObject) -> None:
    heads = data.draw(st.lists(st.integers(-1, sources - 1), max_size=12))
    found = fertilities(np.array(heads, dtype=np.int64), sources)
    assert len(found) == sources
    assert found.sum() == len(heads)
    assert (found >= np.bincount([h for h in heads if h >= 0], minlength=sources)).all()


@pytest.mark.parametrize(
    ("heads", "expected"),
    [
        ([0, 0, 2], [2, 0, 1]),
        ([-1, 1, -1], [0, 3, 0]),
        ([0, -1, 2], [2, 0, 1]),  # as near to both: the earlier
        ([0, -1, -1, -1, 2], [3, 0, 2]),
        ([-1, -1, -1, -1, -1, -1], [2, 2, 2]),
        ([], [0, 0, 0]),
    ],
)
def test_what_comes_from_nothing_goes_with_its_neighbour(
    heads: list[int], expected: list[int]
) -> None:
    assert fertilities(np.array(heads, dtype=np.int64), 3).tolist() == expected


def test_what_a_byte_cannot_hold_goes_to_neighbours() -> None:
    assert fertilities(np.full(300, 1), 4).tolist() == [45, 255, 0, 0]
    assert fertilities(np.full(600, 1), 4).tolist() == [255, 255, 90, 0]
    with pytest.raises(DataError, match=r"max-ratio"):
        fertilities(np.zeros(511, dtype=np.int64), 2)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    prepared(tmp_path / "store", some_pairs(), some_pairs(5, seed=2))
    return Store(tmp_path / "store")


def test_they_are_read_as_they_were_written(store: Store) -> None:
    source = store.part("valid").source
    lengths = store.part("valid").target.lengths()
    draw = np.random.default_rng(0)
    values = [
        np.bincount(draw.integers(0, len(source[index]), length), minlength=len(source[index]))
        for index, length in enumerate(lengths)
    ]
    write_fertilities(store.folder, "valid", values)
    found = read_fertilities(store.folder, "valid")
    assert [found[i].tolist() for i in range(len(found))] == [value.tolist() for value in values]
    assert found.lengths().tolist() == source.lengths().tolist()
    assert found.flat().dtype == np.uint8


def test_missing_and_foreign_ones_are_an_error_with_a_remedy(store: Store) -> None:
    with pytest.raises(DataError, match=r"train\.fertilities is missing.*regard align --data"):
        read_fertilities(store.folder, "train")
    source = store.part("train").source
    write_fertilities(store.folder, "train", [source.flat() * 0])
    os.truncate(store.folder / "train.fertilities", len(source.flat()) - 1)
    with pytest.raises(DataError, match=r"of other text than the store.*regard align"):
        read_fertilities(store.folder, "train")


def test_no_changed_byte_goes_unseen(store: Store) -> None:
    part = store.part("train")
    lengths = part.target.lengths()
    values = [np.zeros(len(part.source[i]), np.int64) for i in range(len(part.source))]
    for value, length in zip(values, lengths, strict=True):
        value[-1] = length
    write_fertilities(store.folder, "train", values)
    read_fertilities(store.folder, "train")
    path = store.folder / "train.fertilities"
    content = path.read_bytes()
    for place in range(0, len(content), 7):
        changed = bytearray(content)
        changed[place] ^= 1 + place % 255
        path.write_bytes(changed)
        with pytest.raises(DataError, match=r"do not add up.*regard align"):
            read_fertilities(store.folder, "train")
