"""Several processes train the same as one, and can resume each other's runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.data.store import Store
from regard.models.folder import WEIGHTS, read_tensors
from regard.settings_tree import to_tree
from regard.training.checkpoint import OPTIMIZER, checkpoint_folders, read_progress
from regard.training.config import RunConfig
from regard.training.metrics_log import read_metrics
from toys import altered, run, small_run, write_reversal_store

NO_DROPOUT: dict[str, Any] = {"model": {"dropout": 0.0}}
# R-Drop requires dropout; this one never drops anything.
MINIMAL_DROPOUT = {"model": {"dropout": 0.0, "word_dropout": 1e-12}}
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "accumulation": {"training": {"gradient_accumulation_steps": 3}},
    "R-Drop": {**MINIMAL_DROPOUT, "training": {"r_drop": 3.0, "gradient_accumulation_steps": 2}},
    "subword sampling": {"data": {"subword_nbest_size": 8, "batch_tokens": 200}},
    "empty shards": {
        "data": {"batch_tokens": 12},
        "training": {"gradient_accumulation_steps": 2},
    },
    "early stopping": {
        "training": {"patience": 1, "checkpoint_every": 2, "learning_rate": 0.03, "max_steps": 60}
    },
    "averages": {"training": {"ema_decay": 0.8, "average_best": 2, "optimizer": "adamw"}},
    "bias and three tables": {"model": {"tied_embeddings": "none", "output_bias": True}},
    "adapters": {"training": {"lora": {"rank": 2, "target_modules": "all"}, "layer_decay": 0.5}},
}


def train_distributed(runs: Sequence[RunConfig], folder: Path, *, processes: int = 2) -> None:
    """Train these runs with several processes."""
    listed = folder / "runs.json"
    listed.write_text(json.dumps([to_tree(config) for config in runs]))
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    subprocess.run(
        [
            sys.executable,
            *launch,
            str(Path(__file__).with_name("train_distributed.py")),
            str(listed),
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=True,
        timeout=300,
    )


def cases(out: Path, store: Store) -> dict[str, RunConfig]:
    """Settings of quick runs without dropout, by name."""
    configs = {}
    for name, changes in CASES.items():
        base = {"init_from": str(store.folder.parent / "base")} if name == "adapters" else {}
        config = altered(small_run(out / name, store, log_every=1), **NO_DROPOUT)
        configs[name] = altered(config, **changes, **base)
    return configs


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store that supports subword regularization, and beside it a base model."""
    folder = tmp_path_factory.mktemp("unigram")
    store = write_reversal_store(folder, valid=True, tokenizer="unigram")
    run(small_run(folder / "base", store, max_steps=3), store)
    return store


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Path:
    """Runs of two processes: all cases, and resumed runs with dropout."""
    folder = tmp_path_factory.mktemp("two")
    whole = small_run(folder / "whole", store, gradient_accumulation_steps=2)
    parts = altered(whole, out=str(folder / "parts"))
    started_by_one = altered(whole, out=str(folder / "started by one"), **NO_DROPOUT)
    run(altered(started_by_one, training={"max_steps": 10}), store)
    finished_by_one = altered(started_by_one, out=str(folder / "finished by one"))
    first_halves = [
        altered(config, training={"max_steps": 10}) for config in (parts, finished_by_one)
    ]
    train_distributed(
        [*cases(folder, store).values(), whole, *first_halves, parts, started_by_one], folder
    )
    run(finished_by_one, store)
    return folder


@pytest.fixture(scope="module")
def one_process(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Path:
    """The same runs by one process, uninterrupted."""
    folder = tmp_path_factory.mktemp("one")
    whole = small_run(folder / "whole", store, gradient_accumulation_steps=2)
    for config in [*cases(folder, store).values(), altered(whole, **NO_DROPOUT)]:
        run(config, store)
    return folder


def without_key_biases(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights without the biases of keys.

    These add a constant to all scores of a query, which softmax ignores. So their gradient is
    rounding error, from which Adam makes steps of the size of the learning rate.
    """
    result = dict(weights)
    for name, bias in weights.items():
        if name.endswith("attention.project.bias"):
            query, _, value = bias.chunk(3)
            result[name] = torch.cat([query, value])
        elif name.endswith("cross.memory.bias"):
            result[name] = bias.chunk(2)[1]
    return result


def assert_same_training(actual: Path, expected: Path) -> None:
    rows, expected_rows = read_metrics(actual), read_metrics(expected)
    assert [row["step"] for row in rows] == [row["step"] for row in expected_rows]
    for row, other in zip(rows, expected_rows, strict=True):
        assert row.keys() == other.keys()
        for name in row.keys() & {"loss", "valid_loss", "mean_valid_loss"}:
            assert row[name] == pytest.approx(other[name], rel=1e-6)
        for name in row.keys() & {"epoch", "target_tokens", "learning_rate"}:
            assert row[name] == other[name]
    assert_same_weights(actual, expected)


def assert_same_weights(actual: Path, expected: Path) -> None:
    assert [path.name for path in checkpoint_folders(actual)] == [
        path.name for path in checkpoint_folders(expected)
    ]
    last, other = checkpoint_folders(actual)[-1], checkpoint_folders(expected)[-1]
    assert read_progress(last).position == read_progress(other).position
    for path, also in ((last, other), (actual, expected)):
        weights, expected_weights = (
            without_key_biases(read_tensors(folder / WEIGHTS)[0]) for folder in (path, also)
        )
        for name, tensor in expected_weights.items():
            torch.testing.assert_close(weights[name], tensor, atol=1e-5, rtol=0)


@pytest.mark.parametrize("case", CASES)
def test_two_processes_train_the_same_as_one(
    case: str, one_process: Path, two_processes: Path
) -> None:
    assert_same_training(two_processes / case, one_process / case)


def test_early_stopping_stops_all_processes(two_processes: Path) -> None:
    last = read_progress(checkpoint_folders(two_processes / "early stopping")[-1])
    assert last.stopped_early
    assert last.step < 60


def test_two_processes_are_resumed_bit_for_bit(two_processes: Path) -> None:
    [*_, whole], [*_, parts] = (
        checkpoint_folders(two_processes / "whole"),
        checkpoint_folders(two_processes / "parts"),
    )
    assert whole.name == parts.name == "00000020"
    for name in (WEIGHTS, OPTIMIZER):
        expected, actual = read_tensors(whole / name)[0], read_tensors(parts / name)[0]
        assert all(torch.equal(tensor, actual[key]) for key, tensor in expected.items())


@pytest.mark.parametrize("order", ["started by one", "finished by one"])
def test_run_is_resumed_with_another_number_of_processes(
    order: str, one_process: Path, two_processes: Path
) -> None:
    assert_same_weights(two_processes / order, one_process / "whole")


@pytest.mark.long
def test_five_processes_train_the_same_as_one(
    tmp_path: Path, store: Store, one_process: Path
) -> None:
    train_distributed([*cases(tmp_path, store).values()], tmp_path, processes=5)
    for case in CASES:
        assert_same_training(tmp_path / case, one_process / case)
