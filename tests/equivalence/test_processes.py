"""Several processes train what one process trains, and may take turns with it."""

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

from regard.config import as_tree
from regard.data.store import Store
from regard.models.folder import WEIGHTS, read_tensors
from regard.training.checkpoint import OPTIMIZER, folders, read_progress
from regard.training.config import RunConfig
from regard.training.metrics_log import read_metrics
from toys import altered, run, small_run, write_reversal_store

NO_DROPOUT: dict[str, Any] = {"model": {"dropout": 0.0}}
# R-Drop asks for some dropout; this one never drops anything.
HARDLY_ANY = {"model": {"dropout": 0.0, "word_dropout": 1e-12}}
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "accumulation": {"training": {"accumulate": 3}},
    "R-Drop": {**HARDLY_ANY, "training": {"r_drop": 3.0, "accumulate": 2}},
    "subword sampling": {"data": {"sampling_candidates": 8, "batch_tokens": 200}},
    "shares of nothing": {"data": {"batch_tokens": 12}, "training": {"accumulate": 2}},
    "early stopping": {
        "training": {"patience": 1, "checkpoint_every": 2, "learning_rate": 0.03, "max_steps": 60}
    },
    "averages": {"training": {"ema_decay": 0.8, "average_best": 2, "optimizer": "adamw"}},
    "bias and three tables": {"model": {"tied_embeddings": "none", "output_bias": True}},
    "adapters": {"training": {"lora": {"rank": 2, "layers": "all"}, "layer_decay": 0.5}},
}


def together(runs: Sequence[RunConfig], folder: Path, *, processes: int = 2) -> None:
    """Train these runs, each by all processes."""
    listed = folder / "runs.json"
    listed.write_text(json.dumps([as_tree(config) for config in runs]))
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    subprocess.run(
        [sys.executable, *launch, str(Path(__file__).with_name("together.py")), str(listed)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=True,
        timeout=300,
    )


def cases(out: Path, store: Store) -> dict[str, RunConfig]:
    """Quick runs without dropout, each in its folder."""
    found = {}
    for name, changes in CASES.items():
        origin = {"init_from": str(store.folder.parent / "origin")} if name == "adapters" else {}
        config = altered(small_run(out / name, store, log_every=1), **NO_DROPOUT)
        found[name] = altered(config, **changes, **origin)
    return found


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store whose sentences can be cut anew, and beside it a model to adapt."""
    folder = tmp_path_factory.mktemp("unigram")
    found = write_reversal_store(folder, valid=True, tokenizer="unigram")
    run(small_run(folder / "origin", found, max_steps=3), found)
    return found


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Path:
    """What two processes made of the cases, and of runs that stopped and went on, with dropout."""
    folder = tmp_path_factory.mktemp("two")
    whole = small_run(folder / "whole", store, accumulate=2)
    parts = altered(whole, out=str(folder / "parts"))
    begun_alone = altered(whole, out=str(folder / "begun alone"), **NO_DROPOUT)
    run(altered(begun_alone, training={"max_steps": 10}), store)
    left_to_one = altered(begun_alone, out=str(folder / "left to one"))
    ten = [altered(config, training={"max_steps": 10}) for config in (parts, left_to_one)]
    together([*cases(folder, store).values(), whole, *ten, parts, begun_alone], folder)
    run(left_to_one, store)
    return folder


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Path:
    """What one process made of the same, in one go."""
    folder = tmp_path_factory.mktemp("one")
    whole = small_run(folder / "whole", store, accumulate=2)
    for config in [*cases(folder, store).values(), altered(whole, **NO_DROPOUT)]:
        run(config, store)
    return folder


def told(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights without the biases of keys.

    They add the same to all scores of a query, which softmax does not see. So their gradient is
    rounding error, and Adam makes steps as long as the rate of it.
    """
    kept = dict(weights)
    for name, bias in weights.items():
        if name.endswith("attention.project.bias"):
            query, _, value = bias.chunk(3)
            kept[name] = torch.cat([query, value])
        elif name.endswith("cross.memory.bias"):
            kept[name] = bias.chunk(2)[1]
    return kept


def assert_same_training(found: Path, expected: Path) -> None:
    rows, wanted = read_metrics(found), read_metrics(expected)
    assert [row["step"] for row in rows] == [row["step"] for row in wanted]
    for row, other in zip(rows, wanted, strict=True):
        assert row.keys() == other.keys()
        for name in row.keys() & {"loss", "valid_loss", "mean_valid_loss"}:
            assert row[name] == pytest.approx(other[name], rel=1e-6)
        for name in row.keys() & {"epoch", "target_tokens", "learning_rate"}:
            assert row[name] == other[name]
    assert_same_weights(found, expected)


def assert_same_weights(found: Path, expected: Path) -> None:
    assert [path.name for path in folders(found)] == [path.name for path in folders(expected)]
    last, other = folders(found)[-1], folders(expected)[-1]
    assert read_progress(last).position == read_progress(other).position
    for path, also in ((last, other), (found, expected)):
        weights, wanted = (told(read_tensors(folder / WEIGHTS)[0]) for folder in (path, also))
        for name, tensor in wanted.items():
            torch.testing.assert_close(weights[name], tensor, atol=1e-5, rtol=0)


@pytest.mark.parametrize("case", CASES)
def test_two_processes_train_what_one_trains(case: str, one: Path, two: Path) -> None:
    assert_same_training(two / case, one / case)


def test_early_stopping_stops_all(two: Path) -> None:
    last = read_progress(folders(two / "early stopping")[-1])
    assert last.stopped_early
    assert last.step < 60


def test_two_that_stopped_go_on_bit_for_bit(two: Path) -> None:
    [*_, whole], [*_, parts] = folders(two / "whole"), folders(two / "parts")
    assert whole.name == parts.name == "00000020"
    for name in (WEIGHTS, OPTIMIZER):
        expected, found = read_tensors(whole / name)[0], read_tensors(parts / name)[0]
        assert all(torch.equal(tensor, found[key]) for key, tensor in expected.items())


@pytest.mark.parametrize("order", ["begun alone", "left to one"])
def test_a_run_goes_on_with_another_number_of_processes(order: str, one: Path, two: Path) -> None:
    assert_same_weights(two / order, one / "whole")


@pytest.mark.long
def test_five_processes_train_what_one_trains(tmp_path: Path, store: Store, one: Path) -> None:
    together([*cases(tmp_path, store).values()], tmp_path, processes=5)
    for case in CASES:
        assert_same_training(tmp_path / case, one / case)
