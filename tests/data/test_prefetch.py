"""Batches made by other processes: the same ones, in the same order."""

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
from regard.data.prefetch import prefetched
from regard.data.sampling import Position, Turn
from regard.data.store import Store
from regard.training.checkpoint import folders, read_progress
from toys import write_reversal_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return write_reversal_store(
        tmp_path_factory.mktemp("prefetch"), valid=False, tokenizer="unigram"
    )


def loader(store: Store) -> Loader:
    config = DataConfig(batch_tokens=200, sampling_candidates=8, sampling_temperature=2.0)
    pairs = PairDataset.of(store, store.part("train"), config, seed=3)
    return Loader(pairs, config.batch_tokens, seed=3)


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("position", [Position(), Position(1, 5)])
def test_the_same_batches_in_the_same_order(store: Store, workers: int, position: Position) -> None:
    count = 60  # more than an epoch has
    expected = islice(loader(store).batches(position), count)
    found = islice(prefetched(loader(store), position, workers), count)
    for (place, batch), (other, also) in zip(expected, found, strict=True):
        assert place == other
        for row, again in ((batch.source, also.source), (batch.target, also.target)):
            assert torch.equal(row.tokens, again.tokens)
            assert torch.equal(row.lengths.lengths, again.lengths.lengths)


@pytest.mark.parametrize("of", [1, 2, 5])
def test_turns_share_all_batches_out(store: Store, of: int) -> None:
    whole = [place for place, _ in islice(loader(store).batches(Position()), 20)]
    turns = [loader(store).batches(Position(), Turn(number, of)) for number in range(of)]
    assert [next(turns[count % of])[0] for count in range(20)] == whole


def test_ctrl_c_reaches_the_run_and_not_its_workers(store: Store, tmp_path: Path) -> None:
    out = tmp_path / "run"
    settings = [
        *["data.workers=2", "data.sampling_candidates=8", "data.batch_tokens=200"],
        *["model.width=16", "model.heads=2", "model.feedforward_width=16"],
        *["model.encoder_layers=1", "model.decoder_layers=1", "training.max_steps=100000"],
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
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
    _, said = process.communicate(timeout=60)
    assert "everything is saved" in said
    assert "Traceback" not in said
    assert "batches made by 2 processes" in said
    assert read_progress(folders(out)[-1]).step > 0
