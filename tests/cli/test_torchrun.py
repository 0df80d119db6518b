"""regard train under torchrun: signals, a killed process, and errors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli.commands import Command, regard
from cli.test_process import arguments, wait_for_a_checkpoint
from regard.data.store import Store
from regard.training.checkpoint import checkpoint_folders, read_progress
from regard.training.metrics_log import read_metrics

__all__ = ["regard"]  # a fixture

TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
NO_DROPOUT = ["--set", "model.dropout=0"]


def start(command: list[str]) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)


def alone(store: Store, out: Path, steps: int) -> list[str]:
    """The words of a command for one process, here."""
    command = [*arguments(store, out, steps)[3:], *NO_DROPOUT]
    return [word.replace("log_every=3", "log_every=1") for word in command]


def several(store: Store, out: Path, steps: int) -> list[str]:
    """The same for two processes."""
    return [sys.executable, *TORCHRUN, "-m", "regard", *alone(store, out, steps)]


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)]
)
def test_signal_saves_and_same_command_resumes(
    number: int, tmp_path: Path, unvalidated_store: Store, regard: Command
) -> None:
    out, whole = tmp_path / "run", tmp_path / "whole"
    with start(several(unvalidated_store, out, 100_000)) as process:
        wait_for_a_checkpoint(out)
        process.send_signal(number)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode != 0
    assert stderr.count("Run the same command again to resume") == 1
    saved = read_progress(checkpoint_folders(out)[-1])
    assert f"Stopped at step {saved.step};" in stderr
    assert [row["step"] for row in read_metrics(out)] == [*range(1, saved.step + 1)]

    with start(several(unvalidated_store, out, saved.step + 3)) as process:
        _, stderr = process.communicate(timeout=120)
    assert process.returncode == 0, stderr
    assert stderr.count(f"Resuming from step {saved.step}.") == 1
    assert regard(*alone(unvalidated_store, whole, saved.step + 3)).status == 0
    losses = [[row["loss"] for row in read_metrics(path)] for path in (out, whole)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_killed_process_stops_the_others_and_run_can_resume(
    tmp_path: Path, unvalidated_store: Store, regard: Command
) -> None:
    out = tmp_path / "run"
    with start(several(unvalidated_store, out, 100_000)) as process:
        wait_for_a_checkpoint(out)
        os.kill(int((out / "lock").read_text().removeprefix("pid ")), signal.SIGKILL)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode != 0
    assert (
        stderr.count("regard: Another process of this run has ended") <= 1
    )  # torchrun may be first
    last = read_progress(checkpoint_folders(out)[-1])
    assert regard(*alone(unvalidated_store, out, last.step + 1)).status == 0
    assert read_progress(checkpoint_folders(out)[-1]).step == last.step + 1


def test_error_is_printed_once(tmp_path: Path, unvalidated_store: Store) -> None:
    command = [*several(unvalidated_store, tmp_path / "run", 5), "--set", "model.norm=batch"]
    with start(command) as process:
        _, stderr = process.communicate(timeout=60)
    assert process.returncode != 0
    assert stderr.count("regard: model.norm=batch is not supported with several processes") == 1
    assert not (tmp_path / "run").exists()
