"""The process of a trial: messages, checkpoints, and the end with the tuner."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from regard.data.store import Store
from regard.errors import DivergedError
from regard.settings_tree import merge_trees, nest_names, to_tree
from regard.tasks.recipes import build_run_config
from regard.training.checkpoint import checkpoint_folders
from regard.training.metrics_log import read_metrics
from regard.tuning.channel import Channel, Message
from regard.tuning.worker import run_trial
from toys import small_run

Answer = Callable[[Message], bool]


@contextmanager
def connected() -> Iterator[tuple[Channel, Channel]]:
    """The channels of a tuner and of a process, in this one."""
    (read_by_process, written), (read, written_by_process) = os.pipe(), os.pipe()
    yield Channel(read, written), Channel(read_by_process, written_by_process)
    for descriptor in (written, written_by_process, read_by_process, read):
        os.close(descriptor)


def trial(
    out: Path, store: Store, stops: Answer = lambda message: False, **changes: Any
) -> tuple[tuple[str, str | None], list[Message]]:
    """Run a trial in this process; returns how it ended, and its messages."""
    tree = merge_trees(to_tree(small_run(out, store)), nest_names(changes))
    job = {"settings": json.loads(json.dumps(tree)), "device": "cpu", "plugins": []}
    received: list[Message] = []

    def answer(channel: Channel) -> None:
        while (messages := channel.receive()) is not None:
            for message in messages:
                if message["event"] == "end":
                    return
                received.append(message)
                if message["event"] == "validation":
                    channel.send({"stop": stops(message)})

    with connected() as (tuner, process):
        thread = threading.Thread(target=answer, args=[tuner])
        thread.start()
        end = run_trial(job, process)
        process.send({"event": "end"})
        thread.join()
    return end, received


def test_validations_are_reported(tmp_path: Path, reversal_store: Store) -> None:
    out = tmp_path / "run"
    end, messages = trial(out, reversal_store)
    assert end == ("finished", None)
    assert messages[0] == {"event": "start", "step": 0, "max_steps": 20}
    rows = read_metrics(out)
    reported = [(m["step"], m["value"]) for m in messages if m["event"] == "validation"]
    assert reported == [(r["step"], r["valid_loss"]) for r in rows if "valid_loss" in r]
    assert [m["step"] for m in messages if m["event"] == "step"] == [4, 8, 12, 16, 20]
    recipe = build_run_config(out / "recipe.toml", preset=None, changes={}, assignments=[])
    assert recipe == small_run(out, reversal_store)


def test_stopped_trial_is_saved_and_resumed(tmp_path: Path, reversal_store: Store) -> None:
    end, messages = trial(tmp_path / "a", reversal_store, lambda message: message["step"] == 10)
    assert end == ("stopped", None)
    assert messages[-1]["step"] == 10
    assert checkpoint_folders(tmp_path / "a")[-1].name == "00000010"
    end, messages = trial(tmp_path / "a", reversal_store)
    assert end == ("finished", None)
    assert messages[0]["step"] == 10
    trial(tmp_path / "b", reversal_store)
    first, second = ((tmp_path / name / "model.safetensors").read_bytes() for name in "ab")
    assert first == second


def test_failures_have_reasons(
    tmp_path: Path, reversal_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    (state, reason), _ = trial(tmp_path / "b", reversal_store, model={"num_heads": 3})
    assert state == "refused"
    assert "does not divide d_model" in str(reason)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "file").touch()
    (state, reason), _ = trial(tmp_path / "c", reversal_store)
    assert state == "error"
    assert "is not a run folder" in str(reason)

    for error, text in (
        (RuntimeError("CUDA out of memory.\nMore lines."), "RuntimeError: CUDA out of memory."),
        (DivergedError("The loss is NaN."), "The loss is NaN."),
        (MemoryError(), "MemoryError"),
    ):
        run_training = Mock(side_effect=error)
        monkeypatch.setattr("regard.tuning.worker.run_training", run_training)
        assert trial(tmp_path / "d", reversal_store)[0] == ("failed", text)


def test_process_ends_with_its_tuner(tmp_path: Path, reversal_store: Store) -> None:
    config = small_run(tmp_path, reversal_store, max_steps=100_000)
    job = {"settings": to_tree(config), "device": "cpu", "plugins": []}
    (read_by_process, written), (read, written_by_process) = os.pipe(), os.pipe()

    def end() -> None:
        """Close the pipes after some updates, as if the tuner were killed."""
        tuner = Channel(read, written)
        while (messages := tuner.receive()) is not None:
            if any(message["event"] == "validation" for message in messages):
                tuner.send({"stop": False})
            if messages[-1].get("step", 0) >= 8:
                break
        os.close(written)
        os.close(read)

    thread = threading.Thread(target=end)
    thread.start()
    assert run_trial(job, Channel(read_by_process, written_by_process)) == ("stopped", None)
    thread.join()
    assert int(checkpoint_folders(tmp_path)[-1].name) >= 8
    os.close(read_by_process)
    os.close(written_by_process)
