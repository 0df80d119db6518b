"""Text streams: rows continue across batches, every token is read once, epochs differ."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from regard.data.batch import Batch, StreamBatch
from regard.data.loader import Loader, validation_batches
from regard.data.prefetch import prefetch_batches
from regard.data.sampling import Position
from regard.data.store import Store
from regard.data.streams import StreamDataset
from regard.errors import ConfigError
from regard.text.special import SPECIAL
from toys import altered, some_run, write_text_store

BATCH_TOKENS = 40


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return write_text_store(tmp_path_factory.mktemp("text"))


def streams(store: Store, part: str = "train") -> StreamDataset:
    """A part of a store, in segments of eight tokens."""
    return StreamDataset(store.text(part).documents, 8, BATCH_TOKENS, SPECIAL.bos, seed=1)


def epoch_of(store: Store, epoch: int) -> list[StreamBatch]:
    """The batches of an epoch."""
    batches = Loader(streams(store), BATCH_TOKENS, seed=1).batches(Position(epoch, 0))
    result = []
    for after, batch in batches:
        assert isinstance(batch, StreamBatch)
        result.append(batch)
        if after.epoch > epoch:
            return result
    raise AssertionError


def rows_of(batches: Sequence[Batch], side: str) -> NDArray[np.int64]:
    """Whole streams. (B, T)"""
    parts = [getattr(batch, side) for batch in batches]
    return np.concatenate([part.tokens.view(len(part.lengths), -1).numpy() for part in parts], 1)


def test_concatenated_rows_are_the_text(store: Store) -> None:
    ids = store.text("train").documents.flat()
    read = []
    for epoch in (0, 1):
        rows = rows_of(epoch_of(store, epoch), "target")
        assert rows.shape == (5, len(ids) // 5)
        whole = rows.flatten().tolist()
        ring = [*ids, *ids]
        assert any(ring[first : first + len(whole)] == whole for first in range(len(ids)))
        read.append(whole)
    assert read[0] != read[1]


def test_inputs_are_shifted_targets(store: Store) -> None:
    batches = epoch_of(store, 0)
    source, target = rows_of(batches, "source"), rows_of(batches, "target")
    previous = np.where(target[:, :-1] == SPECIAL.eos, SPECIAL.bos, target[:, :-1])
    assert np.array_equal(source[:, 1:], previous)
    assert SPECIAL.eos not in source


def test_all_but_the_first_batch_continue(store: Store) -> None:
    batches = epoch_of(store, 0)
    assert [batch.continues for batch in batches] == [False] + [True] * (len(batches) - 1)
    assert all(batch.source.lengths.all_equal for batch in batches)


@pytest.mark.parametrize("workers", [0, 2])
def test_streams_resume_from_any_position(store: Store, workers: int) -> None:
    loader = Loader(streams(store), BATCH_TOKENS, seed=1)
    whole = [*islice(loader.batches(Position()), 80)]
    again = [*islice(prefetch_batches(loader, whole[59][0], workers), 20)]
    for (position, batch), (other_position, other) in zip(whole[60:], again, strict=True):
        assert position == other_position
        assert isinstance(batch, StreamBatch)
        assert isinstance(other, StreamBatch)
        assert batch.continues == other.continues
        assert batch.source.tokens.equal(other.source.tokens)
        assert batch.target.tokens.equal(other.target.tokens)


def test_validation_rows_have_many_segments(store: Store) -> None:
    text = store.text("valid")
    batches = [*validation_batches(streams(store, "valid"), BATCH_TOKENS)]
    rows = rows_of(batches, "target")
    assert rows.flatten().tolist() == text.documents.flat()[: rows.size].tolist()
    assert len(batches) >= 16


def test_settings_for_pairs_are_rejected(store: Store, tmp_path: Path) -> None:
    config = some_run(tmp_path, store, {"kind": "xl"})
    with pytest.raises(ConfigError, match=r"data\.corpus_weights"):
        altered(config, data={"corpus_weights": [1.0]})
