"""A resumed run equals an uninterrupted run bit for bit."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from directions import write_directions_store
from regard.data.store import Store
from regard.errors import StoppedError
from regard.models.folder import AVERAGE, WEIGHTS, read_tensors
from regard.training import checkpoint
from regard.training.checkpoint import OPTIMIZER, checkpoint_folders, read_progress
from regard.training.config import RunConfig
from regard.training.metrics_log import read_metrics
from toys import CollectingCallback, altered, pseudorandom_bleu, small_run, write_reversal_store
from toys import run as run_with

# Steps 1 to 20 include the end of an epoch; step 10 is inside one.
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "accumulation": {"gradient_accumulation_steps": 3},
    "averaging": {"average_last": 3, "checkpoint_every": 4},
    "early stopping": {"patience": 50, "best_metric": "bleu", "checkpoint_every": 3},
    "cosine": {"schedule": "cosine", "decay_steps": 20, "optimizer": "adamw", "weight_decay": 0.1},
}
# All methods that are random or have a state, at once.
DROPOUTS = {
    "word_dropout": 0.1,
    "embedding_dropout": 0.3,
    "attention_dropout": 0.1,
    "activation_dropout": 0.2,
}
METHODS = {
    "r_drop": 2.0,
    "ema_decay": 0.8,
    "optimizer": "adamw",
    "weight_decay": 0.1,
    "label_smoothing": 0.1,
    "gradient_accumulation_steps": 2,
    "patience": 50,
    "best_metric": "bleu",
    "checkpoint_every": 3,
    "keep_checkpoints": 3,
}
ALL_METHODS: dict[str, dict[str, Any]] = {
    "average_last": {**METHODS, "average_last": 3, "schedule": "cosine"},
    "average_best": {**METHODS, "average_best": 3, "schedule": "linear"},
}


@pytest.fixture(scope="module")
def unigram_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store whose tokenizer supports subword regularization."""
    folder = tmp_path_factory.mktemp("unigram")
    return write_reversal_store(folder, valid=True, tokenizer="unigram")


class Interrupting(CollectingCallback):
    """A callback that sends a signal at a step."""

    def __init__(self, step: int, number: int) -> None:
        super().__init__()
        self._step, self._number = step, number

    def on_step_end(self, step: int) -> None:
        if step == self._step:
            os.kill(os.getpid(), self._number)


class KilledError(Exception):
    """Ends a run before it can save anything."""


def run(
    config: RunConfig, store: Store, callback: CollectingCallback | None = None
) -> CollectingCallback:
    return run_with(config, store, callback=callback, bleu=pseudorandom_bleu)


def same_tensors(actual: Path, expected: Path) -> bool:
    first, second = read_tensors(actual)[0], read_tensors(expected)[0]
    return first.keys() == second.keys() and all(
        torch.equal(tensor, second[name]) for name, tensor in first.items()
    )


def assert_same_run(actual: Path, expected: Path) -> None:
    assert [path.name for path in checkpoint_folders(actual)] == [
        path.name for path in checkpoint_folders(expected)
    ]
    for path, also in zip(checkpoint_folders(actual), checkpoint_folders(expected), strict=True):
        assert (path / AVERAGE).exists() == (also / AVERAGE).exists()
        for name in (WEIGHTS, OPTIMIZER, *([AVERAGE] if (path / AVERAGE).exists() else [])):
            assert same_tensors(path / name, also / name), path / name
    assert same_tensors(actual / WEIGHTS, expected / WEIGHTS)
    assert read_tensors(actual / WEIGHTS)[1] == read_tensors(expected / WEIGHTS)[1]
    last, also = checkpoint_folders(actual)[-1], checkpoint_folders(expected)[-1]
    progress, also_progress = read_progress(last), read_progress(also)
    assert progress.position == also_progress.position
    assert progress.figure == also_progress.figure
    assert (progress.best, progress.waited) == (also_progress.best, also_progress.waited)
    timeless = [
        [
            {k: v for k, v in row.items() if k not in ("seconds", "tokens_per_second")}
            for row in read_metrics(path)
        ]
        for path in (actual, expected)
    ]
    assert timeless[0] == timeless[1]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_run_stopped_by_a_signal_is_resumed_exactly(
    case: str, number: int, tmp_path: Path, reversal_store: Store
) -> None:
    whole = small_run(tmp_path / "whole", reversal_store, **CASES[case])
    run(whole, reversal_store)
    parts = small_run(tmp_path / "parts", reversal_store, **CASES[case])
    with pytest.raises(StoppedError) as stopped:
        run(parts, reversal_store, Interrupting(10, number))
    assert stopped.value.exit_status == 128 + number
    assert run(parts, reversal_store).first_step == 10
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_sighup_stops_and_saves_unless_it_is_ignored(
    tmp_path: Path, unvalidated_store: Store
) -> None:
    previous = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        config = small_run(tmp_path / "run", unvalidated_store)
        with pytest.raises(StoppedError) as stopped:
            run(config, unvalidated_store, Interrupting(3, signal.SIGHUP))
        assert stopped.value.exit_status == 129
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
        assert run(config, unvalidated_store, Interrupting(10, signal.SIGHUP)).first_step == 3
    finally:
        signal.signal(signal.SIGHUP, previous)


def test_extended_run_equals_a_long_run(tmp_path: Path, unvalidated_store: Store) -> None:
    run(small_run(tmp_path / "whole", unvalidated_store), unvalidated_store)
    run(small_run(tmp_path / "parts", unvalidated_store, max_steps=11), unvalidated_store)
    run(small_run(tmp_path / "parts", unvalidated_store), unvalidated_store)
    assert same_tensors(tmp_path / "whole" / WEIGHTS, tmp_path / "parts" / WEIGHTS)


def test_killed_run_is_resumed_from_its_last_checkpoint(
    tmp_path: Path, reversal_store: Store
) -> None:
    run(small_run(tmp_path / "whole", reversal_store), reversal_store)

    class Killing(CollectingCallback):
        def on_step_end(self, step: int) -> None:
            if step == 13:
                raise KilledError

    parts = small_run(tmp_path / "parts", reversal_store)
    with pytest.raises(KilledError):
        run(parts, reversal_store, Killing())
    assert run(parts, reversal_store).first_step == 10
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.parametrize("data", [{"subword_nbest_size": 8}, {"corpus_weights": [0.6]}])
def test_subword_regularization_and_corpus_weights_are_resumed_exactly(
    tmp_path: Path, unigram_store: Store, data: dict[str, Any]
) -> None:
    whole = altered(small_run(tmp_path / "whole", unigram_store), data=data)
    run(whole, unigram_store)
    parts = altered(whole, out=str(tmp_path / "parts"))
    with pytest.raises(StoppedError):
        run(parts, unigram_store, Interrupting(7, signal.SIGTERM))
    run(parts, unigram_store)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_temperature_sampling_of_directions_is_resumed_exactly(tmp_path: Path) -> None:
    store = write_directions_store(tmp_path, (60, 30, 15))
    data = {"direction_temperature": 5.0, "batch_tokens": 200}
    whole = altered(small_run(tmp_path / "whole", store), data=data)
    run(whole, store)
    assert read_progress(checkpoint_folders(tmp_path / "whole")[-1]).position.epoch >= 2
    parts = altered(whole, out=str(tmp_path / "parts"))
    for step in (3, 13):
        with pytest.raises(StoppedError):
            run(parts, store, Interrupting(step, signal.SIGTERM))
    run(parts, store)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def all_methods_run(out: Path, store: Store, case: str) -> RunConfig:
    config = small_run(out, store, **ALL_METHODS[case])
    return altered(config, model=DROPOUTS, data={"subword_nbest_size": 8})


@pytest.mark.parametrize("case", ALL_METHODS)
def test_all_methods_at_once_are_resumed_exactly(
    case: str, tmp_path: Path, unigram_store: Store
) -> None:
    run(all_methods_run(tmp_path / "whole", unigram_store, case), unigram_store)
    parts = all_methods_run(tmp_path / "parts", unigram_store, case)
    for step in (1, 6, 10, 11, 19):  # before the first checkpoint, at one, and between them
        with pytest.raises(StoppedError):
            run(parts, unigram_store, Interrupting(step, signal.SIGTERM))
        saved = read_progress(checkpoint_folders(tmp_path / "parts")[-1])
        assert (saved.step, saved.regular, saved.figure is not None) == (step, step == 6, step == 6)
    assert run(parts, unigram_store).first_step == 19
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.parametrize("case", ALL_METHODS)
def test_kill_between_export_and_checkpoint_changes_nothing(
    case: str, tmp_path: Path, unigram_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(all_methods_run(tmp_path / "whole", unigram_store, case), unigram_store)
    parts, save = all_methods_run(tmp_path / "parts", unigram_store, case), checkpoint.save
    for killed_at in (3, 9, 12, 20):

        def save_or_raise(*state: Any, killed_at: int = killed_at, **more: Any) -> Path:
            (progress,) = (part for part in state if isinstance(part, checkpoint.Progress))
            if progress.step == killed_at:
                raise KilledError
            return save(*state, **more)

        monkeypatch.setattr(checkpoint, "save", save_or_raise)
        with pytest.raises(KilledError):
            run(parts, unigram_store)
    monkeypatch.undo()
    run(parts, unigram_store)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_fine_tuning_is_resumed_exactly(tmp_path: Path, reversal_store: Store) -> None:
    run(small_run(tmp_path / "base", reversal_store, max_steps=5), reversal_store)
    whole = small_run(tmp_path / "whole", reversal_store, ema_decay=0.9, learning_rate=0.001)
    whole = altered(whole, init_from=str(tmp_path / "base"))
    run(whole, reversal_store)
    parts = altered(whole, out=str(tmp_path / "parts"))
    for step in (2, 13):
        with pytest.raises(StoppedError):
            run(parts, reversal_store, Interrupting(step, signal.SIGTERM))
    run(parts, reversal_store)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.parametrize("method", [{"average_last": 2}, {"average_best": 2, "layer_decay": 0.5}])
def test_adapters_are_resumed_exactly(
    tmp_path: Path, reversal_store: Store, method: dict[str, Any]
) -> None:
    run(small_run(tmp_path / "base", reversal_store, max_steps=5), reversal_store)
    lora = {"rank": 2, "dropout": 0.3, "target_modules": "all"}
    whole = altered(
        small_run(tmp_path / "whole", reversal_store, ema_decay=0.9, r_drop=1.0, **method),
        init_from=str(tmp_path / "base"),
        training={"lora": lora},
    )
    run(whole, reversal_store)
    parts = altered(whole, out=str(tmp_path / "parts"))
    for step in (2, 13):
        with pytest.raises(StoppedError):
            run(parts, reversal_store, Interrupting(step, signal.SIGTERM))
    run(parts, reversal_store)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
