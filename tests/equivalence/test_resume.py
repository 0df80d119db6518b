"""A run that stopped goes on as if it had not, bit for bit."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.config import as_tree, build, merged
from regard.data.store import Store
from regard.errors import StoppedError
from regard.models.folder import WEIGHTS, read_tensors
from regard.models.transformer import Transformer
from regard.training.checkpoint import OPTIMIZER, folders, read_progress
from regard.training.config import RunConfig
from regard.training.loop import train
from regard.training.record import read_metrics
from toys import Silent, small_run, write_reversal_store

CPU = torch.device("cpu")
# Steps 1 to 20 pass the end of an epoch, and step 10 lies inside one.
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "accumulation": {"accumulate": 3},
    "averaging": {"average_last": 3, "checkpoint_every": 4},
    "early stopping": {"patience": 50, "best_by": "bleu", "checkpoint_every": 3},
    "cosine": {"schedule": "cosine", "decay_steps": 20, "optimizer": "adamw", "weight_decay": 0.1},
}


class Interrupting(Silent):
    """A watcher that sends a signal at a step."""

    def __init__(self, step: int, number: int) -> None:
        super().__init__()
        self._step, self._number = step, number

    def step(self, step: int) -> None:
        if step == self._step:
            os.kill(os.getpid(), self._number)


def fake_bleu(model: Transformer) -> float:
    return sum(float(parameter.detach().sum()) for parameter in model.parameters())


def run(config: RunConfig, store: Store, watcher: Silent | None = None) -> Silent:
    watcher = watcher or Silent()
    train(config, store, CPU, watcher=watcher, bleu=fake_bleu)
    return watcher


def same_tensors(one: Path, other: Path) -> bool:
    first, second = read_tensors(one)[0], read_tensors(other)[0]
    return first.keys() == second.keys() and all(
        torch.equal(tensor, second[name]) for name, tensor in first.items()
    )


def assert_same_run(one: Path, other: Path) -> None:
    last, also = folders(one)[-1], folders(other)[-1]
    assert last.name == also.name
    assert same_tensors(last / WEIGHTS, also / WEIGHTS)
    assert same_tensors(last / OPTIMIZER, also / OPTIMIZER)
    assert same_tensors(one / WEIGHTS, other / WEIGHTS)
    progress, also_progress = read_progress(last), read_progress(also)
    assert progress.position == also_progress.position
    assert (progress.best, progress.waited) == (also_progress.best, also_progress.waited)
    timeless = [
        [
            {k: v for k, v in row.items() if k not in ("seconds", "tokens_per_second")}
            for row in read_metrics(path)
        ]
        for path in (one, other)
    ]
    assert timeless[0] == timeless[1]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped_by_a_signal_is_uninterrupted(
    case: str, number: int, tmp_path: Path, reversal_store: Store
) -> None:
    whole = small_run(tmp_path / "whole", reversal_store, **CASES[case])
    run(whole, reversal_store)
    parts = small_run(tmp_path / "parts", reversal_store, **CASES[case])
    with pytest.raises(StoppedError) as stopped:
        run(parts, reversal_store, Interrupting(10, number))
    assert stopped.value.exit_status == 128 + number
    assert run(parts, reversal_store).began_at == 10
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_a_longer_run_is_the_long_run(tmp_path: Path, unvalidated_store: Store) -> None:
    run(small_run(tmp_path / "whole", unvalidated_store), unvalidated_store)
    run(small_run(tmp_path / "parts", unvalidated_store, max_steps=11), unvalidated_store)
    run(small_run(tmp_path / "parts", unvalidated_store), unvalidated_store)
    assert same_tensors(tmp_path / "whole" / WEIGHTS, tmp_path / "parts" / WEIGHTS)


def test_a_killed_run_goes_on_from_its_last_checkpoint(
    tmp_path: Path, reversal_store: Store
) -> None:
    run(small_run(tmp_path / "whole", reversal_store), reversal_store)

    class KilledError(Exception):
        pass

    class Killing(Silent):
        def step(self, step: int) -> None:
            if step == 13:
                raise KilledError

    parts = small_run(tmp_path / "parts", reversal_store)
    with pytest.raises(KilledError):
        run(parts, reversal_store, Killing())
    assert run(parts, reversal_store).began_at == 10
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.parametrize("data", [{"sampling_candidates": 8}, {"weights": [0.6]}])
def test_subword_sampling_and_weights_resume_too(tmp_path: Path, data: dict[str, Any]) -> None:
    store = write_reversal_store(tmp_path, valid=False, tokenizer="unigram")
    plain = as_tree(small_run(tmp_path / "whole", store))
    whole = build(RunConfig, merged(plain, {"data": data}))
    run(whole, store)
    parts = build(RunConfig, merged(as_tree(whole), {"out": str(tmp_path / "parts")}))
    with pytest.raises(StoppedError):
        run(parts, store, Interrupting(7, signal.SIGTERM))
    run(parts, store)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
