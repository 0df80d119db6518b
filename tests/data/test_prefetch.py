"""Prefetching by worker processes: the same batches in the same order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import pytest
import torch

from regard.data.loader import DataConfig, Loader
from regard.data.pairs import PairDataset
from regard.data.prefetch import prefetch_batches
from regard.data.sampling import Position, Shard
from regard.data.store import Store
from regard.training.checkpoint import checkpoint_folders, read_progress
from toys import write_reversal_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return write_reversal_store(
        tmp_path_factory.mktemp("prefetch"), valid=False, tokenizer="unigram"
    )


def loader(store: Store) -> Loader:
    config = DataConfig(batch_tokens=200, subword_nbest_size=8, subword_temperature=2.0)
    pairs = PairDataset.of(store, store.part("train"), config, seed=3)
    return Loader(pairs, config.batch_tokens, seed=3)


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("position", [Position(), Position(1, 5)])
def test_prefetched_batches_are_the_same(store: Store, workers: int, position: Position) -> None:
    count = 60  # more than an epoch has
    expected = islice(loader(store).batches(position), count)
    actual = islice(prefetch_batches(loader(store), position, workers), count)
    for (after, batch), (other_after, other) in zip(expected, actual, strict=True):
        assert after == other_after
        for row, again in ((batch.source, other.source), (batch.target, other.target)):
            assert torch.equal(row.tokens, again.tokens)
            assert torch.equal(row.lengths.lengths, again.lengths.lengths)


@pytest.mark.parametrize("of", [1, 2, 5])
def test_worker_shards_partition_the_batches(store: Store, of: int) -> None:
    whole = [after for after, _ in islice(loader(store).batches(Position()), 20)]
    shards = [loader(store).batches(Position(), Shard(number, of)) for number in range(of)]
    assert [next(shards[count % of])[0] for count in range(20)] == whole


def test_ctrl_c_is_handled_by_the_run_and_not_by_workers(store: Store, tmp_path: Path) -> None:
    out = tmp_path / "run"
    settings = [
        *["data.num_workers=2", "data.subword_nbest_size=8", "data.batch_tokens=200"],
        *["model.d_model=16", "model.num_heads=2", "model.ffn_dim=16"],
        *["model.num_encoder_layers=1", "model.num_decoder_layers=1", "training.max_steps=100000"],
        *["training.tensorboard=false", "training.checkpoint_every=50000"],
    ]
    assignments = [word for setting in settings for word in ("--set", setting)]
    command = [sys.executable, "-m", "regard", "train", "--data", str(store.folder)]
    process = subprocess.Popen(
        [*command, "--out", str(out), *assignments, "--device", "cpu"],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    metrics = out / "metrics.jsonl"
    deadline = time.monotonic() + 60
    while not (metrics.is_file() and metrics.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)  # to all processes, as a terminal does
    _, stderr = process.communicate(timeout=60)
    assert "everything is saved" in stderr
    assert "Traceback" not in stderr
    assert "2 data workers" in stderr
    assert read_progress(checkpoint_folders(out)[-1]).step > 0
